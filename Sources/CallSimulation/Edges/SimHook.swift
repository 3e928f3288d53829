internal import CallAuth
internal import CallCore
internal import CallEdge
internal import CallJudge
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
  /// A world runs in one thread.
  private nonisolated(unsafe) let onReply: (CallID, HookReply) -> Void

  /// - Parameter onReply: called when the edge gets a reply, or gives a question up.
  init(_ random: SimRandom, _ onReply: @escaping (CallID, HookReply) -> Void) {
    state = Mutex(State(random: random))
    self.onReply = onReply
  }

  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    let call = headers.first { $0.0 == "webhook-id" }.flatMap { CallID(String($0.1.dropFirst(5))) }
    guard let call else { return eventLoop.makeSucceededFuture(.failure(.status(404))) }
    let (after, reply) = state.withLock { Self.reply(&$0, about: call, within: within) }
    return eventLoop.scheduleTask(in: .microseconds(after.microseconds)) { [self] in
      onReply(call, reply.said)
      return reply.bytes
    }.futureResult
  }

  func close() async {}

  private static func reply(
    _ state: inout State, about call: CallID, within: Span
  ) -> (after: Span, Reply) {
    if state.failing == 0, state.random.chance(0.05) { state.failing = state.random.number(1...12) }
    if state.failing > 0 {
      state.failing -= 1
      return state.random.chance(0.5)
        ? (within, Reply(.noAnswer, .failure(.timeout)))
        : (.milliseconds(1), Reply(.noAnswer, .failure(.unreachable)))
    }
    let longest = state.random.chance(0.8) ? .milliseconds(40) : within
    return (state.random.span(.milliseconds(1), longest), answer(about: call, &state.random))
  }

  /// Reasons and names follow from the call.
  private static func answer(about call: CallID, _ random: inout SimRandom) -> Reply {
    if random.chance(0.1) {
      switch call.low % 4 {
      case 0: return Reply(.refuse(.refusedByApp), #"{"action":"refuse"}"#)
      case 1: return Reply(.refuse(.unknownUser), #"{"action":"refuse","reason":"unknownUser"}"#)
      case 2:
        return Reply(.refuse(.userUnavailable), #"{"action":"refuse","reason":"unavailable"}"#)
      default:
        return Reply(.refuse(.refusedByApp), #"{"action":"refuse","reason":"forbidden"}"#)
      }
    }
    guard random.chance(0.3) else {
      guard call.low.isMultiple(of: 3) else {
        return Reply(.allow(name: ""), #"{"action":"allow"}"#)
      }
      let name = "\(namePrefix) \(call.low % 97)"
      return Reply(.allow(name: name), #"{"action":"allow","callerName":"\#(name)"}"#)
    }
    let users: [String]
    if random.chance(0.4), let group = random.pick(SimGroups.names) {
      users = [group]
    } else {
      let count = random.pick([1, 1, 2, 3]) ?? 1
      users = (0..<count).map { _ in SimOptions.user(random.below(SimOptions.userCount)) }
    }
    let list = users.joined(separator: "\",\"")
    return Reply(.forward(users), #"{"action":"forward","to":["\#(list)"]}"#)
  }

  /// With which the names begin that it gives to callers.
  static let namePrefix = "Hook's"

  private struct Reply {
    var said: HookReply
    var bytes: Result<[UInt8], HookFailure>

    init(_ said: HookReply, _ bytes: Result<[UInt8], HookFailure>) {
      (self.said, self.bytes) = (said, bytes)
    }

    init(_ said: HookReply, _ text: String) { self.init(said, .success(Array(text.utf8))) }
  }
}
