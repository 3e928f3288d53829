import CallAuth
import CallCore
import CallTelemetry
package import CallTestKit
import Synchronization

/// Counts of what the app's server was asked in a run.
package struct HookResult: Sendable, Equatable {
  package var questions = 0
  /// By the first word of ``HookTerms/text``.
  package var answers: [String: Int] = [:]
  /// Questions that are not signed, or that it could not read.
  package var unreadable = 0
  package init() {}
}

/// The server of the local cluster's apps, which edges ask about each call before it rings. It says what a header of the
/// call wants it to say.
package struct HookServer: Sendable {
  package let address: WebhookAddress
  private let server: SimulatedHTTPServer
  private let state: State

  private final class State: Sendable {
    let result = Mutex(HookResult())
    let endpoint: SignedEndpoint
    let apps: [String]

    init(apps: [String], secret: [UInt8]) {
      endpoint = SignedEndpoint(url: "", secrets: [secret])
      self.apps = apps
    }
  }

  private struct Question: Decodable {
    struct Header: Decodable {
      var name: String
      var value: String
    }
    struct Details: Decodable {
      var app: String
      var headers: [Header]?
    }
    var type: String
    var data: Details
  }

  /// - Throws: where it cannot listen.
  package static func start(apps: [String]) async throws -> HookServer {
    let secret = (0..<32).map { _ in UInt8.random(in: 0 ... .max) }
    let state = State(apps: apps, secret: secret)
    let server = try await SimulatedHTTPServer.start(authority: nil) { Self.answer($0, state) }
    return HookServer(
      address: WebhookAddress(url: "\(server.origin)/hook", secret: secret), server: server,
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
    let question = try? BoundedJSON.read(Question.self, request.body)
    let header = question?.data.headers?.first { $0.name == HookTerms.header }
    guard request.header("webhook-signature") == signature, let question,
      question.type == "call.placing", state.apps.contains(question.data.app),
      let terms = header.flatMap({ HookTerms($0.value) })
    else {
      state.result.withLock { $0.unreadable += 1 }
      return .answer(status: 403)
    }
    let word = terms.text.split(separator: " ").first.map(String.init) ?? ""
    state.result.withLock {
      $0.questions += 1
      $0.answers[word, default: 0] += 1
    }
    return terms.reply
  }

  /// Adds what was asked to the result of the run.
  package func report(into result: inout RunResult) {
    let found = state.result.withLock { $0 }
    result.hook = found
    guard found.unreadable > 0 else { return }
    result.correctness[.hookDisagrees, default: 0] += found.unreadable
    result.examples[.hookDisagrees, default: []].append(
      "the app's server got \(found.unreadable) questions that were not signed, or not readable")
  }
}

extension HookTerms {
  package var reply: SimulatedReply {
    func says(_ json: String) -> SimulatedReply { .answer(status: 200, body: json) }
    return switch self {
    case .allow: says(#"{"action":"allow"}"#)
    case .name(let name): says(#"{"action":"allow","callerName":"\#(name)"}"#)
    case .slowName(let name):
      .later(
        milliseconds: Self.slowMilliseconds,
        says(#"{"action":"allow","callerName":"\#(name)"}"#))
    case .refuse(let refusal):
      says(
        #"{"action":"refuse","reason":"\#(refusal.rawValue)","message":"\#(Self.sentence)"}"#)
    case .forward(let user): says(#"{"action":"forward","to":["\#(user)"]}"#)
    case .late: .blackHole
    case .broken: .answer(status: 500)
    }
  }
}
