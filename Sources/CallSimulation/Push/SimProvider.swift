internal import CallAuth
internal import CallCore
internal import CallPush

/// The push providers: they accept pushes, deliver most of them, and keep track of valid tokens.
final class SimProvider: SimActor, @unchecked Sendable {
  /// The health of one lane's provider.
  enum Mood: String {
    case up
    /// Answers after a second and more.
    case slow
    case silent
    /// Refuses all, at once.
    case refusing

    var isDead: Bool { self == .silent || self == .refusing }
  }

  struct Token {
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

  let world: SimWorld
  private var random: SimRandom
  private(set) var moods: [PushLane: Mood] = [:]
  private var tokens: [String: Token] = [:]
  private var jobs: [String: PushJob] = [:]
  private var waiting: [ObjectIdentifier: SimSending] = [:]
  /// A provider received a push; called before it acts on it.
  var onSent: (Push, _ lane: PushLane, _ gatewayTime: Timestamp) -> Void = { _, _, _ in }
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

  func give(_ token: PushToken, to holder: Who) {
    tokens[Self.key(token), default: Token(holder: holder)].holder = holder
  }

  func forget(_ token: PushToken) {
    guard tokens[Self.key(token)]?.goneSince == nil else { return }
    tokens[Self.key(token)]?.goneSince = world.now
    tokens[Self.key(token)]?.isMistaken = false
  }

  /// The app was reinstalled and got its former token. The provider learns that after a while.
  func revive(_ token: PushToken) {
    guard tokens[Self.key(token)]?.goneSince != nil else { return }
    tokens[Self.key(token)]?.isMistaken = true
    later(random.span(.seconds(2), .seconds(12))) {
      $0.tokens[Self.key(token)]?.goneSince = nil
      $0.tokens[Self.key(token)]?.isMistaken = false
    }
  }

  // MARK: Pushes

  /// A gateway encoded a push. From here on the message's id identifies the job.
  func written(_ job: PushJob, id: String) { jobs[id] = job }

  /// Accepts a push from a gateway's process, which is answered once, unless it dies first.
  func take(_ message: PushMessage, lane: PushLane, _ sending: SimSending) {
    let process = sending.process
    let local = process.timers.localTime
    waiting[ObjectIdentifier(sending)] = sending
    guard message.deadline > local, let job = jobs[message.id] else {
      return give(.expired, to: sending)
    }
    let push = Push(message: message, job: job, process: process.number)
    onSent(push, lane, local)
    serve(push, lane, sending)
    // Senders give an attempt up after 10 s, and do not wait beyond the deadline.
    let left = min(message.deadline - local, .seconds(10))
    later(left) {
      $0.give(.failed(reason: "no answer before the deadline", mayHaveArrived: true), to: sending)
    }
  }

  func isAwaited(by process: SimNode) -> Bool {
    waiting.values.contains { $0.process === process }
  }

  func forget(_ sending: SimSending) { waiting[ObjectIdentifier(sending)] = nil }

  private func give(_ outcome: PushOutcome, to sending: SimSending) {
    guard waiting.removeValue(forKey: ObjectIdentifier(sending)) != nil else { return }
    sending.process.arrive { sending.end(outcome) }
  }

  private func serve(_ push: Push, _ lane: PushLane, _ sending: SimSending) {
    let token = tokens[Self.key(push.message.token)]
    var latency = random.span(.milliseconds(5), .milliseconds(80))
    switch mood(lane) {
    case .up: break
    case .slow: latency = random.span(.milliseconds(400), .seconds(3))
    case .silent: return world.count("provider.silent")
    case .refusing:
      return later(latency) { $0.give(.failed(reason: "the provider is down"), to: sending) }
    }
    let draw = isCalm ? 1 : random.unit()
    if let refusal = refusal(draw, token) {
      return later(latency) { $0.give(refusal, to: sending) }
    }
    // Accepted, and the answer is lost with the connection.
    let answers = draw >= 0.06
    later(latency) {
      $0.bring(push, token?.holder)
      if answers { $0.give(.accepted, to: sending) }
    }
  }

  private func refusal(_ draw: Double, _ token: Token?) -> PushOutcome? {
    if draw < 0.02 { return .rejected(reason: "BadTopic") }
    if draw < 0.04 { return .failed(reason: "InternalServerError") }
    guard let token, let since = token.goneSince else { return nil }
    if token.isMistaken { world.count("provider.gone said of a token that is good") }
    let reported = !token.isMistaken && random.chance(0.3) ? nil : since
    world.count(reported == nil ? "provider.gone without a time" : "provider.gone")
    return .tokenGone(at: reported)
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
      let again = Span(microseconds: Int64(random.number(1_000...2_000_000)))
      later(wait + again) { $0.onDelivery(holder, push) }
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
    let sending = SimSending(process)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        sending.continuation = continuation
        provider.take(message, lane: lane, sending)
        if Task.isCancelled { sending.end(.failed(reason: "the gateway goes")) }
      }
    } onCancel: {
      provider.forget(sending)
      sending.end(.failed(reason: "the gateway goes"))
    }
  }

  func close() async {}
}

/// A push that waits for its answer.
final class SimSending: @unchecked Sendable {
  let process: SimNode
  var continuation: CheckedContinuation<PushOutcome, Never>?
  init(_ process: SimNode) { self.process = process }
  func end(_ outcome: PushOutcome) { continuation.take()?.resume(returning: outcome) }
}
