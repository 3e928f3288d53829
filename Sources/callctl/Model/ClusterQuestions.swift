internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import FoundationEssentials
internal import NATSBus

/// Asks the nodes of a cluster and gives them orders.
struct ClusterQuestions {
  /// The most answers to a question: more than any cluster has nodes. Further ones are ignored.
  static let answersMax = 10_000

  var bus: NATSBus
  var subjects: Subjects
  /// How long answers are collected.
  var window: Duration
  /// How long the answers to an order are collected. Before a node carries an order out, it stores a record of it, and
  /// a store may be slow. With a shorter wait callctl would report no answer for an order that is then carried out.
  var orderWindow: Duration
  var shownURL: String
  /// The operator's name, under which orders are given.
  var operatorName: String

  /// Returns the jobs in the work queue by lane; nil where the queue cannot be read.
  func pushQueue() async -> [String: Int]? {
    var options = WorkQueueOptions()
    options.createsMissing = false
    guard let queue = try? await bus.openWorkQueue(options) else { return nil }
    var depths: [String: Int] = [:]
    for lane in ClusterView.pushLanes { depths[lane] = try? await queue.depth(lane: lane) }
    return depths
  }

  /// - Parameter expecting: the number of nodes, where it is known: then the last answer ends the wait.
  /// - Throws: `CallctlError`, as all questions do.
  func status(expecting: Int? = nil) async throws -> [NodeStatus] {
    let answers: [NodeStatus] = try await ask(
      subjects.adminStatus, limit: expecting ?? Self.answersMax)
    return answers.sorted { ($0.role, $0.node) < ($1.role, $1.node) }
  }

  /// - Parameter callee: the user who was called; nil: any.
  func call(_ id: String, to callee: UserKey?) async throws -> [CallReport] {
    try await ask(
      subjects.adminCall, AdminQuery(call: id, app: callee?.app, user: callee?.user))
  }

  func user(app: String, user: String) async throws -> [UserReport] {
    try await ask(subjects.adminUser, AdminQuery(app: app, user: user))
  }

  func users(_ query: ListQuery) async throws -> [ListReport<ListedUser>] {
    try await ask(subjects.adminUsers, query, of: "coordinator")
  }

  func calls(_ query: ListQuery) async throws -> [ListReport<ListedCall>] {
    try await ask(subjects.adminCalls, query, of: "coordinator")
  }

  /// Orders one node to do something, and waits until it acknowledges.
  /// - Throws: `CallctlError` where the node refuses or does not answer.
  func order(_ request: DrainRequest) async throws {
    let name = request.action.rawValue
    let answers: [OrderAnswer] = try await askForOrder(
      subjects.order(name, by: operatorName), request, limit: 1)
    guard !answers.isEmpty else {
      throw CallctlError.failed(
        "\(request.node) does not answer. May the operator \(operatorName) give orders (--operator, "
          + "and its user's permissions in NATS)? SIGTERM drains a node, too.")
    }
    guard let refused = answers.first(where: { $0.refused != nil }) else { return }
    throw CallctlError.failed("\(refused.node) does not \(name): \(refused.refused ?? "").")
  }

  /// The orders of operators, the newest last. Unreadable records are left out.
  /// - Throws: `CallctlError` where the stream cannot be read.
  func audit(limit: Int) async throws -> [AuditRecord] {
    do {
      let audit = try await bus.openAudit(AuditOptions(role: ""))
      return try await audit.records(limit: limit).compactMap { AuditRecord($0.bytes) }
    } catch {
      throw CallctlError.failed(
        "the records cannot be read: \(error). May this user read the stream \(subjects.auditStream)?"
      )
    }
  }

  /// The stream of call records.
  func records() async throws -> any RecordStream { try await bus.openRecords(RecordOptions()) }

  /// - Throws: `CallctlError` where the stream cannot be read.
  func reading<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch let error as BusError where error.code == .streamNotFound {
      throw CallctlError.failed(
        "there is no stream \(subjects.recordStream): coordinators make it, unless callRecordsKept is 0. "
          + "callctl calls --live lists what goes on.")
    } catch let error as BusError {
      throw CallctlError.failed(
        "the records cannot be read: \(error). May this user read the stream \(subjects.recordStream)?"
      )
    }
  }

  /// Orders the coordinators to store a revocation where all nodes read it. One coordinator that stores it is enough.
  /// - Parameter expecting: the number of coordinators.
  /// - Throws: `CallctlError` where none has stored it.
  func revoke(_ request: KickRequest, expecting: Int) async throws {
    let answers: [OrderAnswer] = try await askForOrder(
      subjects.order("revoke", by: operatorName), request, limit: max(1, expecting))
    guard !answers.isEmpty else {
      throw CallctlError.failed(
        "no coordinator answers: nothing was revoked. Run it again once one is up; until then no "
          + "session can do anything. May the operator \(operatorName) give orders?")
    }
    guard answers.allSatisfy({ $0.refused != nil }) else { return }
    let reasons = answers.map { "\($0.node): \($0.refused ?? "")" }.joined(separator: "; ")
    throw CallctlError.failed("the revocation is not stored, run it again. \(reasons).")
  }

  /// Orders all edges to end a user's sessions.
  /// - Parameter expecting: the number of edges.
  /// - Throws: `CallctlError` where an edge refuses.
  func kick(_ request: KickRequest, expecting: Int) async throws -> [KickAnswer] {
    guard expecting > 0 else { return [] }
    let answers: [KickAnswer] = try await askForOrder(
      subjects.order("kick", by: operatorName), request, limit: expecting)
    guard let refused = answers.first(where: { $0.refused != nil }) else { return answers }
    throw CallctlError.failed("\(refused.node) does not kick: \(refused.refused ?? "").")
  }

  /// As `ask`. Returns no answers where the order reaches no node.
  private func askForOrder<Answer: Decodable>(
    _ subject: String, _ body: any Encodable, limit: Int
  ) async throws -> [Answer] {
    do {
      return try await ask(subject, body, window: orderWindow, limit: limit)
    } catch let error as CallctlError where error.exitCode == CallctlError.unreachableExitCode {
      return []
    }
  }

  /// - Parameters:
  ///   - window: nil: the operator's `--timeout`.
  ///   - kind: the kind of node that answers this question.
  /// - Throws: `CallctlError` when no node answers, or an answer cannot be read.
  private func ask<Answer: Decodable>(
    _ subject: String, _ body: (any Encodable)? = nil, window: Duration? = nil,
    limit: Int = Self.answersMax, of kind: String = "node"
  ) async throws -> [Answer] {
    let bytes = try body.map { Array(try JSONEncoder().encode($0)) } ?? []
    let messages: [BusMessage]
    do {
      messages = try await bus.requestMany(
        subject, bytes, window: window ?? self.window, limit: limit)
    } catch BusError.noResponders, BusError.timeout {
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
      do {
        return try BoundedJSON.read(Answer.self, message.bytes)
      } catch {
        throw CallctlError.failed(
          "a node's answer on \(subject) cannot be read (\(error)). Is callctl "
            + "(\(CallmeshVersion.current)) older than the cluster?")
      }
    }
  }
}
