internal import CallCore
internal import CallJudge

/// Decides by chance what people do in a call of a kind.
struct CallScriptWriter {
  typealias Actor = CallScript.Actor
  typealias Act = CallScript.Act

  var script: CallScript
  let devices: Int
  let limits: CallLimits
  var random: SimRandom
  /// One of the callee's devices, and when it acts: in milliseconds, like the ring timeout.
  var one = Actor.caller
  var soon = 0
  var timeout = 0

  mutating func write() {
    script.ringTimeoutSeconds = UInt32(random.number(2...6))
    script.alerts = random.chance(0.9)
    if devices > 0 { fill() }
    addSignals()
    addMishaps()
    addCoincidence()
  }

  // MARK: Steps

  mutating func add(
    _ milliseconds: Int, _ who: Actor, _ act: Act, ifRinging: Bool = false
  ) {
    script.steps.append(
      CallScript.Step(
        at: .milliseconds(Int64(milliseconds)), who: who, act: act, ifRinging: ifRinging))
  }

  mutating func addFromAnswer(_ milliseconds: Int, _ who: Actor, _ act: Act) {
    script.stepsFromAnswer.append(
      CallScript.Step(at: .milliseconds(Int64(milliseconds)), who: who, act: act))
  }

  mutating func answerSoon() { add(soon, one, .answer, ifRinging: true) }

  mutating func oneSide() -> Actor { random.chance(0.5) ? .caller : .winner }

  mutating func breakLink() -> Act { .breakLink(silently: random.chance(0.5)) }

  /// Each device does the one, or now and then the other.
  mutating func everybody(from earliest: Int, _ mostly: Act, _ seldom: Act) {
    for device in 0..<devices {
      let act = random.chance(0.8) ? mostly : seldom
      add(random.number(earliest...timeout), .callee(device), act, ifRinging: true)
    }
  }

  // MARK: Kinds

  private mutating func fill() {
    one = .callee(random.below(devices))
    timeout = Int(script.ringTimeoutSeconds) * 1000
    soon = random.number(300...max(400, timeout - 300))
    switch script.kind {
    case .answered: answerSoon()
    case .twoAnswer:
      for device in 0..<devices where devices < 3 || random.chance(0.8) {
        add(soon + random.below(3), .callee(device), .answer, ifRinging: true)
      }
    case .declined: add(soon, one, .say(.decline(.everywhere)), ifRinging: true)
    case .declinedHere: everybody(from: 300, .say(.decline(.here)), .answer)
    case .busy: everybody(from: 200, .say(.busy), .say(.decline(.here)))
    case .cancelled: add(random.chance(0.3) ? random.below(60) : soon, .caller, .say(.cancel))
    case .cancelledAtAnswer:
      add(soon, .caller, .say(.cancel))
      add(max(0, soon + random.number(-12...12)), one, .answer, ifRinging: true)
    case .unanswered, .onlyPlaced: break
    case .streamed: fillStreams()
    case .answeredAtDeadline: add(timeout + random.number(-25...25), one, .answer)
    case .neverConnected:
      script.connects = false
      answerSoon()
      let grace = Int(limits.connectGrace.microseconds / 1000)
      if random.chance(0.5) { addFromAnswer(grace + random.number(-30...30), oneSide(), .hangUp) }
    case .callerBreaks, .winnerBreaks: fillBreaks()
    case .lateAttach: fillLateAttach()
    case .attachedAgain:
      add(random.number(200...timeout), one, breakLink())
      add(random.number(200...timeout), one, .register)
      if random.chance(0.5) { answerSoon() }
    case .lateRefusal:
      answerSoon()
      for device in 0..<devices {
        let verb = random.pick([.busy, .decline(.here), .decline(.everywhere)]) ?? CallVerb.busy
        add(soon + random.number(0...40), .callee(device), .say(verb))
      }
    case .repeated: fillRepeated()
    case .bothHangUp:
      answerSoon()
      let after = random.number(300...4000)
      addFromAnswer(after, .caller, .hangUp)
      addFromAnswer(after + random.below(6), .winner, .hangUp)
    case .crossing: fillCrossing()
    case .pulled:
      answerSoon()
      for _ in 0..<random.number(1...3) {
        addFromAnswer(random.number(100...5000), oneSide(), .pull(random.number(1...2)))
      }
    case .transferred: fillTransfers()
    case .consulted: fillConsulting()
    case .placedByServer: fillPlacedByServer()
    case .leavesInMidRing:
      let pause = random.span(.seconds(1), .seconds(6))
      let act: Act = random.chance(0.5) ? .signOff(pause) : .unregister
      add(random.number(200...timeout), one, act)
      if random.chance(0.5) { answerSoon() }
    }
    if script.kind.endsInTalk {
      let who = oneSide()
      addFromAnswer(random.number(200...7000), who, .hangUp)
    }
  }

  private mutating func fillBreaks() {
    let away = random.span(.milliseconds(300), .seconds(12))
    let act = random.chance(0.5) ? .goOffline(away) : breakLink()
    if script.kind == .callerBreaks {
      if random.chance(0.5) {
        add(random.number(100...soon), .caller, act)
        if random.chance(0.6) { answerSoon() }
      } else {
        answerSoon()
        addFromAnswer(random.number(50...2000), .caller, act)
      }
    } else {
      answerSoon()
      let at = random.number(50...3000)
      addFromAnswer(at, .winner, act)
      if random.chance(0.3) { addFromAnswer(at + random.below(40), .caller, act) }
      if random.chance(0.3) { addFromAnswer(at + random.below(40), .caller, .hangUp) }
    }
  }

  /// Mostly both call within the time that an invite takes; else one side rings already.
  private mutating func fillCrossing() {
    let at = random.chance(0.6) ? random.below(60) : random.number(60...soon)
    add(at, one, .callBack)
    switch random.below(6) {
    case 0: add(at + random.below(80), .caller, .say(.cancel))
    case 1:
      let other = Actor.callee(random.below(devices))
      add(at + random.below(80), other, .answer, ifRinging: true)
    case 2: add(at + random.below(80), one, breakLink())
    case 3: add(at + random.below(80), .caller, breakLink())
    default: break
    }
  }

  private mutating func fillLateAttach() {
    let back = random.span(.milliseconds(200), .milliseconds(Int64(timeout) + 3000))
    add(0, one, .restart(back, woken: true))
    let other = Actor.callee(random.below(devices))
    switch random.below(5) {
    case 0: add(random.number(300...timeout), other, .answer, ifRinging: true)
    case 1: add(random.number(300...timeout), other, .say(.decline(.everywhere)), ifRinging: true)
    case 2: add(random.number(300...timeout), .caller, .say(.cancel))
    default: break
    }
  }

  private mutating func fillRepeated() {
    add(random.number(5...800), .caller, .placeAgain)
    add(random.number(5...800), .caller, .placeOther)
    answerSoon()
    add(soon + random.number(0...100), one, .answer)
    add(soon + random.number(0...500), one, .say(.query))
    let after = random.number(500...3000)
    for _ in 0..<2 { addFromAnswer(after + random.below(200), oneSide(), .hangUp) }
    addFromAnswer(after + 300, .caller, .say(.query))
  }

  /// Signals of one side.
  private static let streamLength = 25

  /// Both sides send a stream of candidates and descriptions: the caller from the beginning or from
  /// the answer, the winner from the answer.
  private mutating func fillStreams() {
    answerSoon()
    let pause = random.number(20...400)
    let isEarly = random.chance(0.3)
    for number in 0..<Self.streamLength {
      if isEarly {
        add(number * pause, .caller, .signal)
      } else {
        addFromAnswer(number * pause, .caller, .signal)
      }
    }
    for number in 0..<Self.streamLength {
      addFromAnswer(number * pause + random.below(30), .winner, .signal)
    }
    addFromAnswer(Self.streamLength * pause + random.number(0...4000), oneSide(), .hangUp)
  }

  // MARK: Beside the kind

  /// Candidates, early ones, late ones, and those of legs that lose.
  private mutating func addSignals() {
    guard random.chance(0.6) else { return }
    for _ in 0..<random.below(4) { add(random.below(1500), .caller, .signal) }
    for device in 0..<devices where random.chance(0.4) {
      for _ in 0..<random.number(1...2) {
        add(random.number(150...3000), .callee(device), .signal, ifRinging: true)
      }
    }
    for _ in 0..<random.below(3) { addFromAnswer(random.below(1500), oneSide(), .signal) }
    // After the end, mostly.
    if random.chance(0.3) { addFromAnswer(7200, .caller, .signal) }
  }

  private mutating func addMishaps() {
    guard random.chance(0.2) else { return }
    let who: Actor =
      devices == 0 || random.chance(0.3) ? .caller : .callee(random.below(devices))
    let at = random.number(0...4000)
    switch random.below(4) {
    case 0: add(at, who, .sleep(random.span(.milliseconds(100), .seconds(9))))
    case 1: add(at, who, breakLink())
    case 2: add(at, who, .goOffline(random.span(.milliseconds(100), .seconds(7))))
    default: add(at, who, .restart(random.span(.milliseconds(100), .seconds(5)), woken: false))
    }
  }

  /// Somebody else acts within 50 ms of one of the steps.
  private mutating func addCoincidence() {
    guard devices > 0, random.chance(0.3) else { return }
    let isInTalk = random.chance(0.6)
    let steps = (isInTalk ? script.stepsFromAnswer : script.steps).filter { !$0.act.isSignal }
    guard let step = random.pick(steps) else { return }
    let at = Int(step.at.microseconds / 1000) + random.below(50)
    let device = Actor.callee(random.below(devices))
    switch (isInTalk, random.below(5)) {
    case (true, 0): addFromAnswer(at, oneSide(), .hangUp)
    case (true, 1): addFromAnswer(at, oneSide(), .pull(random.number(1...2)))
    case (true, 2): addFromAnswer(at, oneSide(), .transfer)
    case (true, 3): addFromAnswer(at, device, .answer)
    case (true, _): addFromAnswer(at, device, .say(.decline(.everywhere)))
    case (false, 0): add(at, .caller, .say(.cancel))
    case (false, 1): add(at, device, .say(.decline(.everywhere)), ifRinging: true)
    case (false, 2): add(at, device, .say(.busy), ifRinging: true)
    case (false, 3): add(at, device, .answer, ifRinging: true)
    case (false, _): add(at, device, .callBack)
    }
  }
}
