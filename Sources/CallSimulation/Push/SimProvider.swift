internal import CallAuth
internal import CallCore
internal import CallPush

/// The push providers: they accept pushes, deliver most of them, and know which tokens are valid.
final class SimProvider: @unchecked Sendable {
  /// The health of one lane's provider.
  enum Mood: String {
    case up
    /// Answers after a second and more.
    case slow
    /// Answers nothing.
    case silent
    /// Refuses all, at once.
    case refusing

    /// Whether nothing gets through.
    var isDead: Bool { self == .silent || self == .refusing }
  }

  /// A provider's record of a token.
  struct Token {
    /// Whose phone has it.
    var holder: Who
    /// Since when the token is invalid, as the provider reports it.
    var goneSince: Timestamp?
    /// The provider answers 410 although the token is valid again: its record is older than the
    /// registration.
    var isMistaken = false
  }

  struct Push {
    var message: PushMessage
    var job: PushJob
    var process: Int
  }

  private let world: SimWorld
  private var random: SimRandom
  private(set) var moods: [PushLane: Mood] = [:]
  private var tokens: [String: Token] = [:]
  private var jobs: [String: PushJob] = [:]
  private var waiting: [UInt64: (process: Int, answer: (PushOutcome) -> Void)] = [:]
  private var lastWait: UInt64 = 0
  /// A provider received a push; called before it acts on it.
  var onSent: (Push, _ lane: PushLane, _ gatewayTime: Timestamp) -> Void = { _, _, _ in }
  /// A push reaches a phone.
  var onDelivery: (_ holder: Who, Push) -> Void = { _, _ in }
  /// No more faults.
  var isCalm = false

  init(_ world: SimWorld) {
    self.world = world
    random = world.fork("provider")
  }

  func mood(_ lane: PushLane) -> Mood { moods[lane] ?? .up }

  // MARK: Tokens

  private static func key(_ token: PushToken) -> String { "\(token.provider.name) \(token.token)" }

  /// A phone has this token.
  func give(_ token: PushToken, to holder: Who) {
    tokens[Self.key(token), default: Token(holder: holder)].holder = holder
  }

  /// The token is good no more.
  func forget(_ token: PushToken) {
    guard tokens[Self.key(token)]?.goneSince == nil else { return }
    tokens[Self.key(token)]?.goneSince = world.now
    tokens[Self.key(token)]?.isMistaken = false
  }

  /// The app was reinstalled and got its former token. The provider learns that after a while.
  func revive(_ token: PushToken) {
    guard tokens[Self.key(token)]?.goneSince != nil else { return }
    tokens[Self.key(token)]?.isMistaken = true
    world.schedule(after: random.span(.seconds(2), .seconds(12)), "provider sees") { [weak self] in
      self?.tokens[Self.key(token)]?.goneSince = nil
      self?.tokens[Self.key(token)]?.isMistaken = false
    }
  }

  // MARK: Pushes

  /// A gateway encoded a push. From here on the message's id identifies the job.
  func written(_ job: PushJob, id: String) { jobs[id] = job }

  /// Accepts a push from a gateway's process. `answer` is called once, unless the process dies
  /// first.
  /// - Returns: what `forgetAnswer` wants.
  func take(
    _ message: PushMessage, lane: PushLane, process: SimNode,
    answer: @escaping (PushOutcome) -> Void
  ) -> UInt64 {
    lastWait += 1
    let number = lastWait
    let local = Timestamp(microseconds: process.timers.localMicroseconds)
    waiting[number] = (
      process.number,
      { outcome in
        process.arrive { answer(outcome) }
      }
    )
    guard message.deadline > local, let job = jobs[message.id] else {
      give(.expired, to: number)
      return number
    }
    let push = Push(message: message, job: job, process: process.number)
    onSent(push, lane, local)
    serve(push, lane, number)
    // Senders do not wait beyond the deadline.
    let left = min(message.deadline - local, .seconds(20))
    world.schedule(after: left, "push times out") { [weak self] in
      self?.give(
        .failed(reason: "no answer before the deadline", mayHaveArrived: true), to: number)
    }
    return number
  }

  /// Whether a gateway's process waits for an answer.
  func isAwaited(by process: SimNode) -> Bool {
    waiting.values.contains { $0.process == process.number }
  }

  func forgetAnswer(_ number: UInt64) { waiting[number] = nil }

  private func give(_ outcome: PushOutcome, to number: UInt64) {
    guard let waiter = waiting.removeValue(forKey: number) else { return }
    waiter.answer(outcome)
  }

  private func serve(_ push: Push, _ lane: PushLane, _ number: UInt64) {
    let token = tokens[Self.key(push.message.token)]
    var latency = random.span(.milliseconds(5), .milliseconds(80))
    switch mood(lane) {
    case .up: break
    case .slow: latency = random.span(.milliseconds(400), .seconds(3))
    case .silent: return world.count("provider.silent")
    case .refusing:
      return later(latency) { $0.give(.failed(reason: "the provider is down"), to: number) }
    }
    let draw = isCalm ? 1 : random.unit()
    if draw < 0.02 {
      return later(latency) { $0.give(.rejected(reason: "BadTopic"), to: number) }
    }
    if draw < 0.04 {
      return later(latency) { $0.give(.failed(reason: "InternalServerError"), to: number) }
    }
    if let token, let since = token.goneSince {
      if token.isMistaken { world.count("provider.gone said of a token that is good") }
      let says: Timestamp? = !token.isMistaken && random.chance(0.3) ? nil : since
      world.count(says == nil ? "provider.gone without a time" : "provider.gone")
      return later(latency) { $0.give(.tokenGone(at: says), to: number) }
    }
    // Accepted, and the answer is lost with the connection.
    let answers = draw >= 0.06
    later(latency) {
      $0.bring(push, token?.holder)
      if answers { $0.give(.accepted, to: number) }
    }
  }

  private func later(_ span: Span, _ body: @escaping (SimProvider) -> Void) {
    world.schedule(after: span, "provider") { [weak self] in if let self { body(self) } }
  }

  /// Delivers a push to the phone: soon, late, twice or never.
  private func bring(_ push: Push, _ holder: Who?) {
    guard let holder else { return }
    let draw = isCalm ? 1 : random.unit()
    if draw < 0.06 { return world.count("provider.lost") }
    var wait = random.span(.milliseconds(20), .milliseconds(600))
    if draw < 0.14 {
      world.count("provider.late")
      wait = random.span(.seconds(1), .seconds(15))
    }
    later(wait) { $0.onDelivery(holder, push) }
    if draw > 0.14, draw < 0.18 {
      world.count("provider.doubled")
      let again = Span(microseconds: wait.microseconds + Int64(random.number(1_000...2_000_000)))
      later(again) { $0.onDelivery(holder, push) }
    }
  }

  // MARK: Faults

  func set(_ lane: PushLane, _ mood: Mood) {
    guard self.mood(lane) != mood else { return }
    moods[lane] = mood
    world.incident("provider", "\(lane.rawValue) is \(mood.rawValue)")
    if mood != .up { world.count("fault.provider \(mood.rawValue)") }
  }

  func heal() {
    isCalm = true
    for lane in PushLane.allCases { set(lane, .up) }
  }
}

/// One gateway process's sender to one provider.
struct SimSender: PushSender {
  let provider: SimProvider
  let lane: PushLane
  let process: SimNode

  func send(_ message: PushMessage) async -> PushOutcome {
    let wait = SimSending()
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        wait.begin(continuation)
        wait.number = provider.take(message, lane: lane, process: process) { wait.end($0) }
        if Task.isCancelled { wait.end(.failed(reason: "the gateway goes")) }
      }
    } onCancel: {
      if let number = wait.number { provider.forgetAnswer(number) }
      wait.end(.failed(reason: "the gateway goes"))
    }
  }

  func close() async {}
}

/// One push that waits for its answer.
private final class SimSending: @unchecked Sendable {
  private var continuation: CheckedContinuation<PushOutcome, Never>?
  var number: UInt64?
  func begin(_ continuation: CheckedContinuation<PushOutcome, Never>) {
    self.continuation = continuation
  }
  func end(_ outcome: PushOutcome) { continuation.take()?.resume(returning: outcome) }
}
