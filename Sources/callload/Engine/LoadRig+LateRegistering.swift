import CallClient
import CallCore
import CallWire

/// Registering while faults happen: what is acknowledged then must last, too.
extension LoadRig {
  /// The devices that left their registrations to the load.
  struct LateRegistering {
    /// Who asks when, for the first time or again.
    var askAt: [Int: Timestamp] = [:]
    /// Who asked, and was not told that it is registered: the cluster may know it, or not.
    var unacknowledged: Set<Int> = []
    /// When nobody waits for acknowledgements any more.
    var giveUpAt: Timestamp
    var isOver = false
  }

  /// One in so many devices.
  private static let lateEvery = 10
  /// After a refusal, or when no reply came.
  private static let lateAgain: Span = .seconds(1)
  /// Faults end about this long before the load does, but not in its first two fifths:
  /// `ChaosDirector.lastFaultSeconds`.
  private static let faultless: Span = .seconds(10)

  /// How long everything must have been in order before a device is given up.
  private var lateSettle: Span {
    Span(microseconds: Int64(options.settleSeconds * 1_000_000))
  }

  /// Whether a device leaves its registration to the load.
  func registersLate(_ device: Int) -> Bool {
    options.isDisturbed && device % Self.lateEvery == Self.lateEvery - 1
      && registers(device) && sleep?.sleeps(device) != true
  }

  /// The devices whose registrations may be in the cluster, and may be not.
  var registrationsOfUnknownFate: Int { lateRegistering?.unacknowledged.count ?? 0 }

  /// Lets those ask whose moment has come, and the stage wait until all are acknowledged.
  func registerLate(at now: Timestamp) {
    guard options.isDisturbed, let stage, stage.interruptedAt == nil else { return }
    if lateRegistering == nil { lateRegistering = planLateRegistering(stage) }
    guard let planned = lateRegistering, !planned.isOver else { return }
    let due = planned.askAt.filter { $0.value <= now }
    for index in due.keys.sorted() { askToRegister(devices[index]) }

    guard let late = lateRegistering else { return }
    // Who was refused for good is not back in this run.
    let open = late.unacknowledged.union(late.askAt.keys)
      .filter { devices[$0].setup == .connected }
    guard !open.isEmpty else { return }
    if !stage.arrivalsDone || !stage.openFaults.isEmpty {
      lateRegistering?.giveUpAt = max(late.giveUpAt, now + lateSettle)
    } else if now < late.giveUpAt {
      stage.wakesUntil = max(stage.wakesUntil, now + Self.tick)
    } else {
      giveUpRegistering(open.sorted(), stage)
    }
  }

  private func planLateRegistering(_ stage: Stage) -> LateRegistering {
    let late = devices.filter { device in
      registersLate(device.index) && device.setup == .connected && !device.isRegistered
    }
    let whole = Double((stage.arrivalsEndAt - stage.startedAt).microseconds)
    let span = max(whole * 0.4, whole - Double(Self.faultless.microseconds))
    var plan = LateRegistering(giveUpAt: stage.arrivalsEndAt + lateSettle)
    for (place, device) in late.enumerated() {
      let share = (Double(place) + 0.5) / Double(late.count)
      plan.askAt[device.index] = stage.startedAt + Span(microseconds: Int64(span * share))
    }
    return plan
  }

  private func askToRegister(_ device: LoadDevice) {
    lateRegistering?.askAt[device.index] = nil
    guard device.setup == .connected else { return }
    lateRegistering?.unacknowledged.insert(device.index)
    if sayRegister(device) == nil { askAgain(device) }
  }

  private func askAgain(_ device: LoadDevice) {
    lateRegistering?.askAt[device.index] = loop.now + Self.lateAgain
  }

  func lateRegisterReplied(_ device: LoadDevice, _ reply: ServerReply?) {
    switch reply {
    case .registered:
      device.isRegistered = true
      registeredCount += 1
      lateRegistering?.unacknowledged.remove(device.index)
      return
    case .error(let error):
      if !error.code.asksForRetry { count("register refused: \(error.code.name)") }
    case nil: break
    case .done, .attached, .call, .answer, .calls: count("register: wrong kind of reply")
    }
    askAgain(device)
  }

  /// Nothing is out of order any more, and still nobody told them.
  private func giveUpRegistering(_ open: [Int], _ stage: Stage) {
    lateRegistering?.isOver = true
    // Who has no session can be told nothing.
    let waiting = open.filter { devices[$0].isAttached }
    for _ in waiting { count("register: never acknowledged") }
    let names = waiting.prefix(3).map { roster.party($0).text }.joined(separator: ", ")
    stage.checker.broken(
      .commandLost, count: waiting.count,
      "\(waiting.count) devices were never told that they are registered: \(names)")
  }
}

extension CallError.Code {
  fileprivate var asksForRetry: Bool {
    switch self {
    case .tryAgain, .overloaded, .draining, .rateLimited: true
    default: false
    }
  }
}
