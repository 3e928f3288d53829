import CallCore

/// One call as drawn from the seed: its devices, its part, and all delays.
struct CallPlan {
  let call: CallID
  let kind: Scenario.Kind
  let caller: Int
  /// The devices that may ring: of the user who is called, or as `route` says.
  let callees: Range<Int>
  let route: CallRoute
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
  /// The script of a call to a group.
  let script: GroupScript?
  /// The script of a call that is handed over.
  let transfer: TransferScript?
  let seed: UInt64
  /// The call that this one crosses, if any.
  let crosses: CallID?
  /// The second call of two that cross.
  let isCallBack: Bool
  /// A call that is placed while this one is answered.
  let second: SecondScript?
  /// For such a call: its relation to the first one.
  let during: SecondCallTerms?
  /// Its users take no second call.
  let isStrict: Bool
  /// The answer that the app's server is to give about it; nil: the server is not asked.
  let hook: HookTerms?
  private let alertMs: ClosedRange<Double>

  init(
    _ part: Scenario.Part, call: CallID, caller: Int, callees: Range<Int>, placeAt: Timestamp,
    seed: UInt64, route: CallRoute = .direct, third: (user: Int, devices: Range<Int>)? = nil,
    callers: Range<Int>? = nil, isStrict: Bool = false, hook: HookTerms? = nil
  ) {
    var random = SplitMix64(seed: seed)
    self.call = call
    self.kind = part.kind
    self.caller = caller
    self.callees = callees
    self.route = route
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
    let answersFirst = answersThen
    script = route.group.map {
      GroupScript(members: $0.members.count, answersFirst: answersFirst, &random)
    }
    let other = CallID(high: call.high ^ seed.byteSwapped, low: call.low ^ random.next())
    second = third.flatMap { third in
      switch part.kind {
      case .secondCall:
        SecondScript(other, from: third.devices, to: [callers ?? callees, callees], &random)
      case .consulted: SecondScript(other, to: third.devices)
      default: nil
      }
    }
    let consulted = part.kind == .consulted ? other : nil
    transfer =
      part.kind == .secondCall
      ? nil
      : third.map {
        TransferScript(
          user: $0.user, devices: $0.devices, act: Self.draw(part.actMs, &random),
          answers: answersFirst, consulted: consulted, &random)
      }
    (isCallBack, during, self.hook) = (false, nil, hook)
    self.isStrict = isStrict
    crosses = part.kind == .crossing ? other : nil
  }

  /// The call that is placed while another one is answered.
  /// - Parameter holder: the device that has the side which is to be handed over.
  init?(secondOf plan: CallPlan, holder: Int, placeAt: Timestamp) {
    guard let script = plan.second else { return nil }
    var random = SplitMix64(seed: plan.seed &* 0x9E37_79B9)
    call = script.call
    kind = plan.kind
    caller = script.caller ?? holder
    callees = script.callees
    route = .direct
    self.placeAt = placeAt
    ringTimeoutSeconds = plan.ringTimeoutSeconds
    actor = Int.random(in: script.callees, using: &random)
    other = actor
    (act, then, talk, away) = (plan.act, plan.then, plan.talk, .zero)
    hangUpByCaller = !plan.hangUpByCaller
    exchangesCandidates = plan.exchangesCandidates
    answersThen = plan.answersThen
    (self.script, transfer, crosses, second) = (nil, nil, nil, nil)
    seed = plan.seed.byteSwapped
    isCallBack = false
    isStrict = plan.isStrict
    hook = plan.hook.map { _ in
      HookTerms(
        for: plan.kind, .direct, allows: plan.isStrict, caller: script.caller ?? holder, &random)
    }
    during = SecondCallTerms(
      first: plan.call, isRefused: plan.isStrict && plan.kind == .secondCall)
    alertMs = plan.alertMs
  }

  /// The call with which the actor of another one calls its caller back.
  /// - Parameter callees: the devices of that caller's user.
  init?(callBackOf plan: CallPlan, to callees: Range<Int>) {
    guard let call = plan.crosses, !plan.isCallBack else { return nil }
    self.call = call
    kind = plan.kind
    caller = plan.actor
    self.callees = callees
    route = .direct
    placeAt = plan.placeAt + plan.act
    ringTimeoutSeconds = plan.ringTimeoutSeconds
    (actor, other) = (plan.caller, plan.caller)
    (act, then, talk, away) = (.zero, plan.then, plan.talk, plan.away)
    hangUpByCaller = plan.hangUpByCaller
    exchangesCandidates = plan.exchangesCandidates
    answersThen = plan.answersThen
    (script, transfer, second, during, isStrict) = (nil, nil, nil, nil, false)
    hook = plan.hook.map { _ in .allow }
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

  var devices: [Int] { [caller] + callees + (transfer?.devices ?? 0..<0) }

  /// Whether its sides signal as the scenario, or `--signals`, says.
  var streams: Bool { ![.pulled, .transferred, .consulted].contains(kind) }

  /// The name of the user who is called.
  func callee(_ roster: Roster) -> String {
    route.called(roster) ?? roster.userName(roster.user(of: callees.lowerBound))
  }

  var allowed: [CallOutcome] {
    if case .refuse(let refusal) = hook { return [.refused(refusal.code)] }
    // The load's app refuses a call without an answer, the strict one lets it through.
    if hook?.isNone == true, !isStrict { return [.refused(.appAway)] }
    return switch kind {
    case .answered, .twoAnswer, .calleeReturns, .callerReturns, .pulled, .forwarded,
      .transferred, .consulted:
      [.answered]
    case .secondCall:
      if let during {
        // Where it rings although it is to be refused, `CallChecker+SecondCalls` judges whether it may.
        (during.isRefused ? [.ended(.busy)] : []) + [answersThen ? .answered : .ended(.declined)]
      } else {
        [.answered]
      }
    case .declinedEverywhere: [.ended(.declined)]
    case .declinedHere:
      callees.count == 1 ? [.ended(.declined)] : [answersThen ? .answered : .ended(.unanswered)]
    case .cancelled: [.ended(.cancelled)]
    case .cancelAtAnswer: [.answered, .ended(.cancelled)]
    case .unanswered: [.ended(.unanswered)]
    case .busy: [.ended(.busy)]
    case .group: script?.isCancelled == true ? [.ended(.cancelled)] : [.answered]
    // `CrossingJudge` looks at both.
    case .crossing: [.answered, .ended(.glare)]
    }
  }

  /// The time by which the call should be over.
  var overAt: Timestamp {
    let acts = act.microseconds + then.microseconds + away.microseconds
    let ring = Int64(ringTimeoutSeconds) * 1_000_000
    let transfer = transfer.map { $0.act.microseconds + TransferScript.ringTimeout.microseconds }
    // It lasts for as long as the other one of two does.
    let calls: Int64 = second == nil && during == nil ? 1 : 2
    return placeAt
      + Span(microseconds: (max(acts, ring) + talk.microseconds) * calls + (transfer ?? 0))
  }

  /// Whether a device of this call drops its connection, so that its user takes no other call.
  var dropsConnection: Bool { kind == .calleeReturns || kind == .callerReturns }
}
