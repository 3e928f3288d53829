internal import CallBus
internal import CallTelemetry
internal import FoundationEssentials

/// The questions that every node of a cluster answers.
struct ClusterQuestions {
  /// More answers than any cluster has nodes. Those behind it are not heard.
  static let answersMax = 10_000

  var bus: any MessageBus
  var subjects: Subjects
  /// How long answers are collected.
  var window: Duration
  var shownURL: String
  /// Under whose name orders are given.
  var operatorName: String
  var openAudit: @Sendable () async throws -> any AuditTrail
  /// Jobs in the work queue by lane; nil where that cannot be told.
  var pushQueue: @Sendable () async -> [String: Int]? = { nil }
  /// Stores a revocation, where all nodes will read it.
  var store: @Sendable (Revocation) async throws -> Void = { _ in throw BusError.closed }

  /// - Parameter expecting: how many nodes there are, where that is known: then nobody waits for
  ///   the end of the window.
  func status(expecting: Int? = nil) async throws -> [NodeStatus] {
    let answers: [NodeStatus] = try await ask(
      subjects.adminStatus, body: [], limit: expecting ?? Self.answersMax)
    return answers.sorted { ($0.role, $0.node) < ($1.role, $1.node) }
  }

  func call(_ id: String) async throws -> [CallReport] {
    try await ask(subjects.adminCall, body: encode(AdminQuery(call: id)), limit: Self.answersMax)
  }

  func user(app: String, user: String) async throws -> [UserReport] {
    try await ask(
      subjects.adminUser, body: encode(AdminQuery(app: app, user: user)), limit: Self.answersMax)
  }

  func users(_ query: ListQuery) async throws -> [ListReport<ListedUser>] {
    try await ask(subjects.adminUsers, body: encode(query), limit: Self.answersMax, "coordinator")
  }

  func calls(_ query: ListQuery) async throws -> [ListReport<ListedCall>] {
    try await ask(subjects.adminCalls, body: encode(query), limit: Self.answersMax, "coordinator")
  }

  /// Has one node do something, and waits until it says that it heard.
  func order(_ request: DrainRequest, expecting: Int) async throws {
    let body = Array(try JSONEncoder().encode(request))
    let name = request.action.rawValue
    let answers: [OrderAnswer]
    do {
      answers = try await ask(
        subjects.order(name, by: operatorName), body: body, limit: expecting)
    } catch let error as CallctlError where error.exitCode == 2 {
      answers = try await former(request, body, expecting: expecting)
    }
    guard let refused = answers.first(where: { $0.refused != nil }) else { return }
    throw CallctlError.failed("\(refused.node) does not \(name): \(refused.refused ?? "").")
  }

  /// Nodes of the version before hear orders elsewhere, and leave no record of them.
  private func former(
    _ request: DrainRequest, _ body: [UInt8], expecting: Int
  ) async throws -> [OrderAnswer] {
    do {
      return try await ask(subjects.formerDrain, body: body, limit: expecting)
    } catch let error as CallctlError where error.exitCode == 2 {
      throw CallctlError.failed(
        "\(request.node) does not answer. May the operator \(operatorName) give orders (--operator, and "
          + "its user's permissions in NATS)? SIGTERM drains a node, too.")
    }
  }

  /// What operators ordered, the newest last. What cannot be read is left out.
  func audit(limit: Int) async throws -> [AuditRecord] {
    do {
      return try await openAudit().records(limit: limit).compactMap { AuditRecord($0.bytes) }
    } catch {
      throw CallctlError.failed(
        "the records cannot be read: \(error). May this user read the stream \(subjects.auditStream)?"
      )
    }
  }

  /// Has all edges end a user's sessions.
  /// - Parameter expecting: how many edges there are.
  func kick(_ request: KickRequest, expecting: Int) async throws -> [KickAnswer] {
    guard expecting > 0 else { return [] }
    let name = request.revokedAtSeconds == nil ? "kick" : "revoke"
    do {
      let answers: [KickAnswer] = try await ask(
        subjects.order(name, by: operatorName), body: encode(request), limit: expecting, "edge")
      guard let refused = answers.first(where: { $0.refused != nil }) else { return answers }
      throw CallctlError.failed("\(refused.node) does not \(name): \(refused.refused ?? "").")
    } catch let error as CallctlError where error.exitCode == 2 {
      return []
    }
  }

  private func encode(_ query: some Encodable) throws -> [UInt8] {
    Array(try JSONEncoder().encode(query))
  }

  /// - Parameter kind: who answers this question.
  /// - Throws: `CallctlError` when nobody answers, or an answer cannot be read.
  private func ask<Answer: Decodable>(
    _ subject: String, body: [UInt8], limit: Int, _ kind: String = "node"
  ) async throws -> [Answer] {
    let messages: [BusMessage]
    do {
      messages = try await bus.requestMany(subject, body, window: window, limit: limit)
    } catch BusError.noResponders {
      messages = []
    } catch BusError.timeout {
      messages = []
    } catch {
      throw CallctlError.unreachable("the question to NATS at \(shownURL) failed: \(error).")
    }
    guard !messages.isEmpty else {
      throw CallctlError.unreachable(
        """
        NATS at \(shownURL) answers, but no \(kind) of the cluster "\(subjects.cluster)" does.
          Name another cluster with --cluster or CALLMESH_CLUSTER, another NATS with --nats-url or \
        CALLMESH_NATS_URL, or give the nodes longer with --timeout SECONDS.
        """)
    }
    return try messages.map { message in
      guard BoundedJSON.isShallow(message.bytes) else {
        throw CallctlError.failed(
          "a node's answer on \(subject) is no answer: it is nested too deep.")
      }
      do {
        return try JSONDecoder().decode(Answer.self, from: Data(message.bytes))
      } catch {
        throw CallctlError.failed(
          "a node's answer on \(subject) cannot be read (\(error)). Is callctl "
            + "(\(CallmeshVersion.current)) older than the cluster?")
      }
    }
  }
}
