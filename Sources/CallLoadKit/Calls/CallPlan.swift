import CallClient
import CallCore

/// One call as drawn from the seed: its devices, its part, and all delays.
struct CallPlan {
  let call: CallID
  let kind: Scenario.Kind
  let caller: Int
  /// Of the user who was called, or to whom that user's rules send the call.
  let callees: Range<Int>
  /// The user who was called, where its rules send the call on.
  let forwarder: Int?
  /// The intended time of placing, from which latency counts.
  let placeAt: Timestamp
  let ringTimeoutSeconds: UInt32
  /// The device that acts first, and another where there is one.
  let actor: Int
  let other: Int
  let act: Span
  let then: Span
  let talk: Span
  let away: Span
  let hangUpByCaller: Bool
  let exchangesCandidates: Bool
  /// Where the part allows both: it is answered after the first act.
  let answersThen: Bool
  let seed: UInt64
  /// Of a call that crosses another one: that one.
  let crosses: CallID?
  /// The second call of two that cross.
  let isCallBack: Bool
  private let alertMs: ClosedRange<Double>

  init(
    _ part: Scenario.Part, call: CallID, caller: Int, callees: Range<Int>, placeAt: Timestamp,
    seed: UInt64, forwarder: Int? = nil
  ) {
    var random = SplitMix64(seed: seed)
    self.call = call
    self.kind = part.kind
    self.caller = caller
    self.callees = callees
    self.forwarder = forwarder
    self.placeAt = placeAt
    self.ringTimeoutSeconds = part.ringTimeoutSeconds
    let actor = Int.random(in: callees, using: &random)
    self.actor = actor
    self.other =
      callees.count > 1
      ? callees.lowerBound
        + (actor - callees.lowerBound + Int.random(in: 1..<callees.count, using: &random))
        % callees.count : actor
    self.act = Self.draw(part.actMs, &random)
    self.then = Self.draw(part.thenMs, &random)
    self.talk = Self.draw(part.talkMs, &random)
    self.away = Self.draw(part.awayMs, &random)
    self.hangUpByCaller = Bool.random(using: &random)
    self.exchangesCandidates = Double.random(in: 0..<1, using: &random) < part.candidates
    self.answersThen = Double.random(in: 0..<1, using: &random) < part.answered
    self.seed = random.next()
    self.alertMs = part.alertMs
    isCallBack = false
    crosses =
      part.kind == .crossing
      ? CallID(high: call.high ^ seed.byteSwapped, low: call.low ^ random.next()) : nil
  }

  /// The call with which the actor of another one calls its caller back.
  /// - Parameter callees: the devices of that caller's user.
  init?(callBackOf plan: CallPlan, to callees: Range<Int>) {
    guard let call = plan.crosses, !plan.isCallBack else { return nil }
    self.call = call
    kind = plan.kind
    caller = plan.actor
    self.callees = callees
    forwarder = nil
    placeAt = plan.placeAt + plan.act
    ringTimeoutSeconds = plan.ringTimeoutSeconds
    (actor, other) = (plan.caller, plan.caller)
    (act, then, talk, away) = (.zero, plan.then, plan.talk, plan.away)
    hangUpByCaller = plan.hangUpByCaller
    exchangesCandidates = plan.exchangesCandidates
    answersThen = plan.answersThen
    seed = plan.seed.byteSwapped
    crosses = plan.call
    isCallBack = true
    alertMs = plan.alertMs
  }

  /// How long a device takes from the invite to alerting.
  func alert(_ device: Int) -> Span {
    var random = SplitMix64(seed: seed ^ UInt64(device))
    return Self.draw(alertMs, &random)
  }

  private static func draw(_ range: ClosedRange<Double>, _ random: inout SplitMix64) -> Span {
    Span(microseconds: Int64(Double.random(in: range, using: &random) * 1000))
  }

  var devices: [Int] { [caller] + callees }

  /// The user who was called.
  func callee(_ roster: Roster) -> Int { forwarder ?? roster.user(of: callees.lowerBound) }

  var allowed: [CallOutcome] {
    switch kind {
    case .answered, .twoAnswer, .calleeReturns, .callerReturns, .pulled, .forwarded: [.answered]
    case .declinedEverywhere: [.ended(.declined)]
    case .declinedHere:
      callees.count == 1 ? [.ended(.declined)] : [answersThen ? .answered : .ended(.unanswered)]
    case .cancelled: [.ended(.cancelled)]
    case .cancelAtAnswer: [.answered, .ended(.cancelled)]
    case .unanswered: [.ended(.unanswered)]
    case .busy: [.ended(.busy)]
    // `CrossingJudge` looks at both.
    case .crossing: [.answered, .ended(.glare)]
    }
  }

  /// The time by which the call should be over.
  var overAt: Timestamp {
    let acts = act.microseconds + then.microseconds + away.microseconds
    let ring = Int64(ringTimeoutSeconds) * 1_000_000
    return placeAt + Span(microseconds: max(acts, ring) + talk.microseconds)
  }

  /// Whether a device of this call drops its connection, so that its user takes no other call.
  var dropsConnection: Bool { kind == .calleeReturns || kind == .callerReturns }
}

final class LiveCall {
  /// Stands for a session description: opaque to the cluster, of a plausible size.
  static let description =
    "v=0\r\no=- 46117317 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n"
    + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:4ZcD\r\n"
    + "a=ice-pwd:2/1muCWoOi3uLifh0NuRHlCs\r\na=setup:actpass\r\na=mid:0\r\na=sendrecv\r\n"
    + "a=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n"

  let plan: CallPlan
  /// Devices of the callee that were attached when it was placed, and never sleep.
  let expectedInvites: Int
  /// The first invite, from which the part's acts count.
  var ringsSince: Timestamp?
  /// The length of ringing, by the cluster's clock alone.
  var ringSpan: Span?
  var invited: Set<Int> = []
  /// Of the devices that never sleep.
  var awakeInvited = 0
  /// When the last device was notified.
  var lastElsewhereAt: Timestamp?
  var lastCancelAt: Timestamp?
  /// The intended times of answers, by device.
  var answerIntended: [Int: Timestamp] = [:]
  /// Devices that are to answer as soon as they ring.
  var answersOnInvite: Set<Int> = []
  var cancelIntended: Timestamp?
  /// Refusals that sleeping devices send as soon as they ring.
  var refusesOnInvite: [Int: CallVerb] = [:]
  /// Devices that act over HTTP, with a push's capability.
  var actsByPush: Set<Int> = []
  var isOver: Set<Int> = []
  /// The dropped device is attached again.
  var isBack = false
  var candidatesSent: [Int: Int] = [:]
  /// Devices whose next candidate has a timer.
  var streaming: Set<Int> = []
  /// The device that took the call over.
  var puller: Int?
  /// Devices that were notified of the answer and take part in the conversation.
  var talking: Set<Int> = []

  init(plan: CallPlan, expectedInvites: Int) {
    self.plan = plan
    self.expectedInvites = expectedInvites
  }
}
