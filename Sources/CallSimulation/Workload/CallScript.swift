internal import CallCore

struct CallScript {
  enum Actor: Equatable {
    case caller
    /// By number among the callee's devices.
    case callee(Int)
    case winner
  }

  enum Act: Equatable {
    case answer
    case declineHere
    case declineEverywhere
    case busy
    case cancel
    case hangUp
    case signal
    /// The same request once more, under a new request id.
    case placeAgain
    /// The same call id with other content.
    case placeOther
    case query
    case register
    case unregister
    case breakLink(silently: Bool)
    case goOffline(Span)
    case sleep(Span)
    /// The app is gone for a while; it comes back knowing of the call from a push, or of nothing.
    case restart(Span, woken: Bool)
    /// Leaves, saying so, and comes back later.
    case signOff(Span)
  }

  struct Step {
    var at: Span
    var who: Actor
    var act: Act
    /// Only if the device shows the call as ringing.
    var ifRinging = false
  }

  enum Kind: String, CaseIterable {
    case answered
    case twoAnswer = "two answer"
    case declined
    case declinedHere = "declined here"
    case busy
    case cancelled
    case cancelledAtAnswer = "cancelled at the answer"
    case unanswered
    case answeredAtDeadline = "answered at the deadline"
    case neverConnected = "never connected"
    case callerBreaks = "the caller breaks"
    case winnerBreaks = "the winner breaks"
    case lateAttach = "late attach"
    case attachedAgain = "attached again"
    case lateRefusal = "late refusal"
    case repeated
    case bothHangUp = "both hang up"
    case leavesInMidRing = "leaves in mid-ring"
    case onlyPlaced = "only placed"
    case streamed
  }

  var kind: Kind
  var ringTimeoutSeconds: UInt32 = 0
  var connects = true
  var alerts = true
  var steps: [Step] = []
  /// Timed from when the answer is in the journal.
  var stepsFromAnswer: [Step] = []
}

extension CallScript {
  /// Writes the script of a call to a user of so many devices.
  static func write(
    devices: Int, limits: CallLimits, _ random: inout SimRandom
  ) -> CallScript {
    var kind = devices == 0 ? .onlyPlaced : (random.pick(Kind.allCases) ?? .answered)
    // Many, so that outages coincide with some.
    if devices > 0, random.chance(0.1) { kind = .streamed }
    var script = CallScript(kind: kind)
    script.ringTimeoutSeconds = UInt32(random.number(2...6))
    script.alerts = random.chance(0.9)
    if devices > 0 { script.fill(devices: devices, limits: limits, &random) }
    script.addSignals(devices: devices, &random)
    script.addMishaps(devices: devices, &random)
    return script
  }

  private mutating func add(
    _ milliseconds: Int, _ who: Actor, _ act: Act, ifRinging: Bool = false
  ) {
    steps.append(
      Step(at: .milliseconds(Int64(milliseconds)), who: who, act: act, ifRinging: ifRinging))
  }

  private mutating func addFromAnswer(_ milliseconds: Int, _ who: Actor, _ act: Act) {
    stepsFromAnswer.append(Step(at: .milliseconds(Int64(milliseconds)), who: who, act: act))
  }

  private mutating func fill(
    devices: Int, limits: CallLimits, _ random: inout SimRandom
  ) {
    let one = Actor.callee(random.below(devices))
    let timeout = Int(ringTimeoutSeconds) * 1000
    let soon = random.number(300...max(400, timeout - 300))
    switch kind {
    case .answered:
      add(soon, one, .answer, ifRinging: true)
      talk(&random)
    case .twoAnswer:
      for device in 0..<devices where devices < 3 || random.chance(0.8) {
        add(soon + random.below(3), .callee(device), .answer, ifRinging: true)
      }
      talk(&random)
    case .declined: add(soon, one, .declineEverywhere, ifRinging: true)
    case .declinedHere:
      for device in 0..<devices {
        let act: Act = random.chance(0.8) ? .declineHere : .answer
        add(random.number(300...timeout), .callee(device), act, ifRinging: true)
      }
      talk(&random)
    case .busy:
      for device in 0..<devices {
        let act: Act = random.chance(0.8) ? .busy : .declineHere
        add(random.number(200...timeout), .callee(device), act, ifRinging: true)
      }
    case .cancelled: add(random.chance(0.3) ? random.below(60) : soon, .caller, .cancel)
    case .cancelledAtAnswer:
      add(soon, .caller, .cancel)
      add(max(0, soon + random.number(-12...12)), one, .answer, ifRinging: true)
      talk(&random)
    case .unanswered, .onlyPlaced: break
    case .streamed: fillStreams(one, soon, &random)
    case .answeredAtDeadline:
      add(timeout + random.number(-25...25), one, .answer)
      talk(&random)
    case .neverConnected:
      connects = false
      add(soon, one, .answer, ifRinging: true)
      let grace = Int(limits.connectGrace.microseconds / 1000)
      if random.chance(0.5) {
        addFromAnswer(
          grace + random.number(-30...30), random.chance(0.5) ? .caller : .winner, .hangUp)
      }
    case .callerBreaks, .winnerBreaks: fillBreaks(one, soon, &random)
    case .lateAttach: fillLateAttach(one, devices, timeout, &random)
    case .attachedAgain:
      add(random.number(200...timeout), one, .breakLink(silently: random.chance(0.5)))
      add(random.number(200...timeout), one, .register)
      if random.chance(0.5) { add(soon, one, .answer, ifRinging: true) }
      talk(&random)
    case .lateRefusal:
      add(soon, one, .answer, ifRinging: true)
      for device in 0..<devices {
        let act = random.pick([Act.busy, .declineHere, .declineEverywhere]) ?? .busy
        add(soon + random.number(0...40), .callee(device), act)
      }
      talk(&random)
    case .repeated: fillRepeated(one, soon, &random)
    case .bothHangUp:
      add(soon, one, .answer, ifRinging: true)
      let after = random.number(300...4000)
      addFromAnswer(after, .caller, .hangUp)
      addFromAnswer(after + random.below(6), .winner, .hangUp)
    case .leavesInMidRing:
      let pause = random.span(.seconds(1), .seconds(6))
      let act: Act = random.chance(0.5) ? .signOff(pause) : .unregister
      add(random.number(200...timeout), one, act)
      if random.chance(0.5) { add(soon, one, .answer, ifRinging: true) }
      talk(&random)
    }
  }

  private mutating func talk(_ random: inout SimRandom) {
    let who: Actor = random.chance(0.5) ? .caller : .winner
    addFromAnswer(random.number(200...7000), who, .hangUp)
  }

  private mutating func fillBreaks(_ one: Actor, _ soon: Int, _ random: inout SimRandom) {
    let away = random.span(.milliseconds(300), .seconds(12))
    let act: Act = random.chance(0.5) ? .goOffline(away) : .breakLink(silently: random.chance(0.5))
    if kind == .callerBreaks {
      if random.chance(0.5) {
        add(random.number(100...soon), .caller, act)
        if random.chance(0.6) { add(soon, one, .answer, ifRinging: true) }
      } else {
        add(soon, one, .answer, ifRinging: true)
        addFromAnswer(random.number(50...2000), .caller, act)
      }
    } else {
      add(soon, one, .answer, ifRinging: true)
      let at = random.number(50...3000)
      addFromAnswer(at, .winner, act)
      if random.chance(0.3) { addFromAnswer(at + random.below(40), .caller, act) }
      if random.chance(0.3) { addFromAnswer(at + random.below(40), .caller, .hangUp) }
    }
    talk(&random)
  }

  private mutating func fillLateAttach(
    _ one: Actor, _ devices: Int, _ timeout: Int, _ random: inout SimRandom
  ) {
    let back = random.span(.milliseconds(200), .milliseconds(Int64(timeout) + 3000))
    add(0, one, .restart(back, woken: true))
    let other = Actor.callee(random.below(devices))
    switch random.below(5) {
    case 0: add(random.number(300...timeout), other, .answer, ifRinging: true)
    case 1: add(random.number(300...timeout), other, .declineEverywhere, ifRinging: true)
    case 2: add(random.number(300...timeout), .caller, .cancel)
    default: break
    }
    talk(&random)
  }

  private mutating func fillRepeated(_ one: Actor, _ soon: Int, _ random: inout SimRandom) {
    add(random.number(5...800), .caller, .placeAgain)
    add(random.number(5...800), .caller, .placeOther)
    add(soon, one, .answer, ifRinging: true)
    add(soon + random.number(0...100), one, .answer)
    add(soon + random.number(0...500), one, .query)
    let after = random.number(500...3000)
    for _ in 0..<2 {
      addFromAnswer(after + random.below(200), random.chance(0.5) ? .caller : .winner, .hangUp)
    }
    addFromAnswer(after + 300, .caller, .query)
  }

  /// Both sides send a stream of candidates and descriptions: the caller from the beginning or from
  /// the answer, the winner from the answer.
  private mutating func fillStreams(_ one: Actor, _ soon: Int, _ random: inout SimRandom) {
    add(soon, one, .answer, ifRinging: true)
    let pause = random.number(20...400)
    if random.chance(0.3) {
      for number in 0..<Self.streamLength { add(number * pause, .caller, .signal) }
    } else {
      for number in 0..<Self.streamLength { addFromAnswer(number * pause, .caller, .signal) }
    }
    for number in 0..<Self.streamLength {
      addFromAnswer(number * pause + random.below(30), .winner, .signal)
    }
    addFromAnswer(
      Self.streamLength * pause + random.number(0...4000), random.chance(0.5) ? .caller : .winner,
      .hangUp)
  }

  /// Signals of one side.
  private static let streamLength = 25

  /// Candidates, early ones, late ones, and those of legs that lose.
  private mutating func addSignals(devices: Int, _ random: inout SimRandom) {
    guard random.chance(0.6) else { return }
    for _ in 0..<random.below(4) { add(random.below(1500), .caller, .signal) }
    for device in 0..<devices where random.chance(0.4) {
      for _ in 0..<random.number(1...2) {
        add(random.number(150...3000), .callee(device), .signal, ifRinging: true)
      }
    }
    for _ in 0..<random.below(3) {
      addFromAnswer(random.below(1500), random.chance(0.5) ? .caller : .winner, .signal)
    }
    // After the end, mostly.
    if random.chance(0.3) { addFromAnswer(7200, .caller, .signal) }
  }

  private mutating func addMishaps(devices: Int, _ random: inout SimRandom) {
    guard random.chance(0.2) else { return }
    let who: Actor =
      devices == 0 || random.chance(0.3) ? .caller : .callee(random.below(devices))
    let at = random.number(0...4000)
    switch random.below(4) {
    case 0: add(at, who, .sleep(random.span(.milliseconds(100), .seconds(9))))
    case 1: add(at, who, .breakLink(silently: random.chance(0.5)))
    case 2: add(at, who, .goOffline(random.span(.milliseconds(100), .seconds(7))))
    default: add(at, who, .restart(random.span(.milliseconds(100), .seconds(5)), woken: false))
    }
  }
}
