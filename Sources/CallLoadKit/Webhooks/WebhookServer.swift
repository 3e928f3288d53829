import CallAuth
package import CallTestKit
import Synchronization

/// Where the webhook of the local cluster's apps points, and the secret that signs its events.
package struct WebhookAddress: Sendable, Equatable {
  package var url: String
  package var secret: [UInt8]
}

/// The server of the local cluster's apps. It verifies and takes each event, but refuses one in a hundred once, so
/// that retries are part of every run.
package struct WebhookServer: Sendable {
  package let address: WebhookAddress
  private let server: SimulatedHTTPServer
  private let state: State

  private final class State: Sendable {
    struct Inside {
      var judge: WebhookJudge
      var refused: Set<String> = []
    }
    let inside: Mutex<Inside>
    let endpoint: SignedEndpoint

    init(apps: [String], secret: [UInt8]) {
      inside = Mutex(Inside(judge: WebhookJudge(apps: apps)))
      endpoint = SignedEndpoint(url: "", secrets: [secret])
    }
  }

  private static let refusedEvery: UInt64 = 100
  private static let pollInterval: Duration = .milliseconds(100)

  /// - Throws: where it cannot listen.
  package static func start(apps: [String]) async throws -> WebhookServer {
    let secret = (0..<32).map { _ in UInt8.random(in: 0 ... .max) }
    let state = State(apps: apps, secret: secret)
    let server = try await SimulatedHTTPServer.start(authority: nil) { Self.answer($0, state) }
    return WebhookServer(
      address: WebhookAddress(url: "\(server.origin)/events", secret: secret), server: server,
      state: state)
  }

  package func stop() async { await server.stop() }

  /// The server's answer. Called on its connections' event loops.
  package func answer(_ request: SimulatedRequest) -> SimulatedReply {
    Self.answer(request, state)
  }

  private static func answer(_ request: SimulatedRequest, _ state: State) -> SimulatedReply {
    let id = request.header("webhook-id") ?? ""
    let seconds = Int64(request.header("webhook-timestamp") ?? "") ?? 0
    let signature = state.endpoint.signature(id: id, seconds: seconds, body: request.body)
    let event = WebhookEvent(json: request.body)
    let status = state.inside.withLock { inside in
      guard request.header("webhook-signature") == signature else {
        inside.judge.receiveUnreadable("a request was not signed with the webhook's secret: \(id)")
        return 403
      }
      guard let event, event.id == id else {
        inside.judge.receiveUnreadable("a request was no event: \(id)")
        return 400
      }
      if hash(id).isMultiple(of: refusedEvery), inside.refused.insert(id).inserted { return 503 }
      inside.judge.receive(event)
      return 204
    }
    return .answer(status: status)
  }

  /// FNV-1a: an event's attempts and repetitions have the same one.
  private static func hash(_ text: String) -> UInt64 {
    text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }

  // MARK: Judging

  /// Waits until every event has come that is due, then judges.
  /// - Parameters:
  ///   - result: whose ``RunResult/webhooksDue`` are judged, and removed.
  ///   - limit: how long to wait for events that are under way.
  ///   - isWanted: polled; nothing is judged once it returns false.
  package func judge(
    _ result: inout RunResult, within limit: Duration, isWanted: () -> Bool
  ) async {
    let dues = result.webhooksDue
    result.webhooksDue = []
    let deadline = ContinuousClock.now + limit
    while !state.inside.withLock({ $0.judge.hasAll(dues) }), ContinuousClock.now < deadline {
      guard isWanted() else { return }
      try? await Task.sleep(for: Self.pollInterval)
    }
    guard isWanted() else { return }
    state.inside.withLock { inside in
      inside.judge.judge(dues, into: &result)
      result.webhooks = WebhookResult(
        calls: dues.count, events: inside.judge.events, repeated: inside.judge.repeated,
        refused: inside.refused.count)
    }
  }
}
