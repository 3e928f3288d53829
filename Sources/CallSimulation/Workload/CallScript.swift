internal import CallCore
internal import CallJudge

/// The acts of people in one call.
struct CallScript {
  enum Actor: Equatable {
    case caller
    /// By number among the callee's devices.
    case callee(Int)
    case winner
  }

  enum Act: Equatable {
    case say(CallVerb)
    case signal
    /// The same request once more, under a new request id.
    case placeAgain
    /// The same call id with other content.
    case placeOther
    /// Other devices of the actor's user take the answered call over, so many at once.
    case pull(Int)
    /// The actor hands the call over to somebody.
    case transfer
    /// The actor asks somebody in a call of its own, and hands this one over to who answered there.
    case consult
    /// The device calls the caller.
    case callBack
    case register
    case unregister
    case breakLink(silently: Bool)
    case goOffline(Span)
    case sleep(Span)
    /// The app ends and starts again later: woken by a push of the call, or without knowledge of it.
    case restart(Span, woken: Bool)
    /// Detaches, and comes back later.
    case signOff(Span)

    static let answer = Act.say(.answer(description: "answer"))
    static let hangUp = Act.say(.hangUp)

    var isSignal: Bool {
      if case .signal = self { return true }
      return false
    }
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
    case crossing
    case streamed
    case pulled
    case transferred
    case consulted
    case placedByServer = "placed by the app's server"

    /// The kinds that devices place, of which one is drawn for each call.
    static let ofDevices = allCases.filter { $0 != .placedByServer }
    /// Those in which most can happen at the same time, of which some worlds have many.
    static let crowded = [twoAnswer, crossing, pulled, transferred, consulted]

    /// Whether one side hangs up a while after the answer, if there is one.
    var endsInTalk: Bool {
      switch self {
      case .declined, .busy, .cancelled, .unanswered, .neverConnected, .repeated, .bothHangUp,
        .onlyPlaced, .streamed, .transferred, .consulted, .placedByServer:
        false
      default: true
      }
    }
  }

  var kind: Kind
  var ringTimeoutSeconds: UInt32 = 0
  var connects = true
  var alerts = true
  var steps: [Step] = []
  /// Timed from when the answer is in the journal.
  var stepsFromAnswer: [Step] = []

  /// The call with which a device calls back.
  static func crossing(_ random: inout SimRandom) -> CallScript {
    var script = CallScript(kind: .crossing)
    script.ringTimeoutSeconds = UInt32(random.number(2...6))
    script.stepsFromAnswer = [
      Step(
        at: .milliseconds(Int64(random.number(200...5000))),
        who: random.chance(0.5) ? .caller : .winner, act: .hangUp)
    ]
    return script
  }

  /// The call in which a device asks somebody about another one.
  static func asking(_ random: inout SimRandom) -> CallScript {
    var script = CallScript(kind: .consulted)
    script.ringTimeoutSeconds = UInt32(random.number(2...6))
    script.steps = [
      Step(
        at: .milliseconds(Int64(random.number(300...1500))), who: .callee(0), act: .answer,
        ifRinging: true)
    ]
    script.stepsFromAnswer = [
      Step(
        at: .milliseconds(Int64(random.number(1500...9000))),
        who: random.chance(0.5) ? .caller : .winner, act: .hangUp)
    ]
    return script
  }

  /// The call that the app's server places between two users: what the first one's devices do. Those of the second one
  /// decide when they ring.
  static func placedByServer(devices: Int, _ random: inout SimRandom) -> CallScript {
    var writer = CallScriptWriter(
      script: CallScript(kind: .placedByServer), devices: devices, limits: CallLimits(),
      random: random)
    writer.write()
    random = writer.random
    return writer.script
  }

  /// Writes the script of a call to a user of so many devices.
  /// - Parameter mostly: the kind of most calls; nil: all kinds alike.
  static func write(
    devices: Int, limits: CallLimits, mostly: Kind?, _ random: inout SimRandom
  ) -> CallScript {
    var kind = devices == 0 ? .onlyPlaced : (random.pick(Kind.ofDevices) ?? .answered)
    if let mostly, mostly != .placedByServer, devices > 0, random.chance(0.6) { kind = mostly }
    // Many, so that outages coincide with some.
    if devices > 0, random.chance(0.1) { kind = .streamed }
    var writer = CallScriptWriter(
      script: CallScript(kind: kind), devices: devices, limits: limits, random: random)
    writer.write()
    random = writer.random
    return writer.script
  }
}
