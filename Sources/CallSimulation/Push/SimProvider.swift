internal import CallAuth
internal import CallCore
internal import CallJudge
internal import CallPush

/// The push providers: they accept pushes, deliver most of them, and keep track of valid tokens.
final class SimProvider: SimActor, @unchecked Sendable {
  /// The health of one lane's provider.
  enum Mood: String {
    case up
    /// Answers after a second and more.
    case slow
    case silent
    /// Answers 5xx to all, at once.
    case refusing
    /// As `refusing`, and demands a pause: of rings an hour.
    case pausing
    /// Knows no token, at once.
    case forgetful

    var isDead: Bool { self != .up && self != .slow }
  }

  struct Token {
    var holder: Who
    /// Since when the token is invalid, as the provider reports it.
    var goneSince: Timestamp?
    /// The provider answers 410 although the token is valid again: its record is older than the
    /// registration.
    var isMistaken = false
  }

  /// The answer to one attempt.
  enum Answer {
    case accepted
    /// The token belongs to the provider's other environment.
    case acceptedIn(String)
    case gone(Timestamp?)
    case tokenRefused
    case rejected(String)
    case trouble(String, retryAfter: Span?)
    /// No answer in time.
    case none
  }

  /// A ring that the provider refused for a while, though its token is good.
  struct Owed {
    var push: Push
    var lane: PushLane
    /// An attempt waits for its answer.
    var isUnderWay = false
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
  private var begun: Set<Attempted> = []
  private var owed: [Attempted: Owed] = [:]
  private var upSince: [PushLane: Timestamp] = [:]
  /// A sabotage: a sender takes the first answer for final.
  var givesUp = false
  /// The gateways are in trouble, and owe no push until then.
  var gatewaysTroubled = Timestamp(microseconds: 0)
  private var waiting: [ObjectIdentifier: SimSending] = [:]
  /// It says for good that a token is gone.
  var onGone: (PushToken) -> Void = { _ in }
  /// A ring was never taken, although its provider was up for the last seconds before the deadline.
  var onSilence: (PushJob) -> Void = { _ in }
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

  private struct Attempted: Hashable {
    var id: String
    var process: Int
  }

  /// An attempt of a gateway's process, which is answered once, unless the process dies first.
  func receive(_ message: PushMessage, lane: PushLane, _ sending: SimSending) {
    let process = sending.process
    waiting[ObjectIdentifier(sending)] = sending
    guard let job = jobs[message.id] else { return give(.rejected("no such job"), to: sending) }
    let push = Push(message: message, job: job, process: process.number)
    let attempt = Attempted(id: message.id, process: process.number)
    if begun.insert(attempt).inserted { onSent(push, lane, process.timers.localTime) }
    owed[attempt]?.isUnderWay = true
    serve(push, lane, sending)
    // Senders give an attempt up after 10 s, and do not wait beyond the deadline.
    later(min(message.deadline - process.timers.localTime, .seconds(10))) {
      $0.give(.none, to: sending)
    }
  }

  /// A gateway's process is done with a push.
  func ended(_ message: PushMessage, _ outcome: PushOutcome, by process: SimNode) {
    switch outcome {
    case .tokenGone, .tokenRefused(_, isSure: true), .rejected:
      owed[Attempted(id: message.id, process: process.number)] = nil
    case .accepted, .acceptedIn, .tokenRefused(_, isSure: false), .expired, .failed: break
    }
  }

  // MARK: What is owed

  /// How long a provider must have been up before a ring's deadline: several attempts fall into that time.
  private static let upBefore = Span.seconds(4)

  /// The ring is refused for now. Whether it was taken in the end is looked at with its deadline.
  private func owe(_ push: Push, _ lane: PushLane, _ process: SimNode) {
    let attempt = Attempted(id: push.message.id, process: process.number)
    let left = push.message.deadline - process.timers.localTime
    guard push.job.purpose == .ring, owed[attempt] != nil || left > Self.upBefore else { return }
    if owed.updateValue(Owed(push: push, lane: lane), forKey: attempt) != nil { return }
    later(left) { $0.look(at: attempt, process) }
  }

  private func look(at attempt: Attempted, _ process: SimNode) {
    guard let ring = owed.removeValue(forKey: attempt), !ring.isUnderWay,
      !ring.push.message.isCancelled, process.state == .running,
      gatewaysTroubled + ring.push.job.lifetime < world.now,
      mood(ring.lane) == .up,
      (upSince[ring.lane] ?? Timestamp(microseconds: 0)) + Self.upBefore < world.now,
      let token = tokens[Self.key(ring.push.message.token)], token.goneSince == nil
    else { return }
    onSilence(ring.push.job)
  }

  /// For the jitter of senders.
  func chance() -> UInt64 { random.next() }

  func isAwaited(by process: SimNode) -> Bool {
    waiting.values.contains { $0.process === process }
  }

  func forget(_ sending: SimSending) { waiting[ObjectIdentifier(sending)] = nil }

  private func give(_ answer: Answer, to sending: SimSending) {
    guard waiting.removeValue(forKey: ObjectIdentifier(sending)) != nil else { return }
    sending.process.arrive { sending.end(answer) }
  }

  private func serve(_ push: Push, _ lane: PushLane, _ sending: SimSending) {
    let token = tokens[Self.key(push.message.token)]
    var latency = random.span(.milliseconds(5), .milliseconds(80))
    switch mood(lane) {
    case .silent: return world.count("provider.silent")
    case .slow: latency = random.span(.milliseconds(400), .seconds(3))
    case .up, .refusing, .pausing, .forgetful: break
    }
    let draw = isCalm ? 1 : random.unit()
    if let refusal = moody(lane, push) ?? refusal(draw, push, lane, token) {
      if refusal.isForNow, token?.goneSince == nil { owe(push, lane, sending.process) }
      return later(latency) { $0.give(refusal, to: sending) }
    }
    owed[Attempted(id: push.message.id, process: sending.process.number)] = nil
    let isElsewhere = push.message.token.belongsElsewhere(than: lane)
    // Accepted, and the answer is lost with the connection.
    let answers = draw >= 0.06
    later(latency) {
      $0.bring(push, token?.holder)
      guard answers else { return }
      $0.give(isElsewhere ? .acceptedIn(SimPushProfile.sandbox) : .accepted, to: sending)
    }
  }

  private func moody(_ lane: PushLane, _ push: Push) -> Answer? {
    switch mood(lane) {
    case .up, .slow, .silent: nil
    case .refusing: .trouble("ServiceUnavailable", retryAfter: nil)
    case .pausing:
      // Rings are tried on all the same. Whatever else waits for so long would outlast the world.
      .trouble(
        "ServiceUnavailable", retryAfter: push.job.purpose == .ring ? .seconds(3600) : .seconds(20))
    case .forgetful: .tokenRefused
    }
  }

  private func refusal(_ draw: Double, _ push: Push, _ lane: PushLane, _ token: Token?) -> Answer? {
    if draw < 0.02 { return .rejected("BadTopic") }
    if draw < 0.04 { return .trouble("InternalServerError", retryAfter: nil) }
    // A token that was accepted is sent to its environment alone.
    if push.message.token.belongsElsewhere(than: lane), push.message.trust != .unproven {
      return .tokenRefused
    }
    guard let token, let since = token.goneSince else { return nil }
    if token.isMistaken { world.count("provider.gone said of a token that is good") }
    let reported = !token.isMistaken && random.chance(0.3) ? nil : since
    world.count(reported == nil ? "provider.gone without a time" : "provider.gone")
    onGone(push.message.token)
    return .gone(reported)
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
    upSince[lane] = world.now
    world.incident("provider", "\(lane.rawValue) is \(mood.rawValue)")
    if mood != .up { world.count("fault.provider \(mood.rawValue)") }
  }

  func heal() {
    isCalm = true
    for lane in PushLane.allCases { set(lane, .up) }
  }
}

extension SimProvider.Answer {
  /// Whether a later attempt may be accepted.
  fileprivate var isForNow: Bool {
    switch self {
    case .trouble, .tokenRefused: true
    case .accepted, .acceptedIn, .gone, .rejected, .none: false
    }
  }
}

extension PushToken {
  /// Whether the token is the sandbox's, and the lane is production's.
  fileprivate func belongsElsewhere(than lane: PushLane) -> Bool {
    provider == .apns && lane == .apnsProduction && SimPushProfile.isOfSandbox(self)
  }
}

extension PushJob {
  fileprivate var lifetime: Span { deadline - decidedAt }
}
