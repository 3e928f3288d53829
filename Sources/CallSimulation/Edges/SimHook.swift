internal import CallAuth
internal import CallCore
internal import CallEdge
internal import NIOCore
internal import Synchronization

/// The app's server, as one edge's process meets it: mostly quick, sometimes slow, silent or away. Now and then it
/// refuses or forwards, and may allow the same call elsewhere.
final class SimHook: HookClient {
  static let settings = HookSettings(
    url: "https://app.example/hook", secrets: [[UInt8](repeating: 9, count: 32)])

  /// No gateway delivers to it: the stream of its events is what counts.
  static let webhooks = [
    WebhookSettings(SignedEndpoint(url: "https://app.example/events", secrets: [[9]]))
  ]

  private struct State {
    var random: SimRandom
    /// How many further questions get no answer.
    var failing = 0
  }
  private let state: Mutex<State>

  init(_ random: SimRandom) { state = Mutex(State(random: random)) }

  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    let (after, reply) = state.withLock { Self.reply(&$0, within: within) }
    return eventLoop.scheduleTask(in: .microseconds(after.microseconds)) { reply }.futureResult
  }

  func close() async {}

  private static func reply(
    _ state: inout State, within: Span
  ) -> (after: Span, Result<[UInt8], HookFailure>) {
    if state.failing == 0, state.random.chance(0.05) { state.failing = state.random.number(1...12) }
    if state.failing > 0 {
      state.failing -= 1
      return state.random.chance(0.5)
        ? (within, .failure(.timeout)) : (.milliseconds(1), .failure(.unreachable))
    }
    let longest = state.random.chance(0.8) ? .milliseconds(40) : within
    return (
      state.random.span(.milliseconds(1), longest), .success(Array(answer(&state.random).utf8))
    )
  }

  private static func answer(_ random: inout SimRandom) -> String {
    if random.chance(0.1) { return #"{"action":"refuse"}"# }
    guard random.chance(0.3) else { return #"{"action":"allow"}"# }
    if random.chance(0.4), let group = random.pick(SimGroups.names) {
      return #"{"action":"forward","to":["\#(group)"]}"#
    }
    let count = random.pick([1, 1, 2, 3]) ?? 1
    let users = (0..<count).map { _ in SimOptions.user(random.below(SimOptions.userCount)) }
    return #"{"action":"forward","to":["\#(users.joined(separator: "\",\""))"]}"#
  }
}
