import CallClient
import CallCore
import CallJudge
import CallWire

/// Which devices register, when, and what the cluster has acknowledged. Under faults one in ten registers
/// during the load: the cluster must not lose these registrations either.
final class Registrations {
  private unowned let fleet: DeviceFleet
  private(set) var count = 0
  /// The next attempt of each device that registers late. nil: not planned yet.
  private var askAt: [Int: Timestamp]?
  /// Devices that asked and have no acknowledgement: the cluster may have them or not.
  private var unacknowledged: Set<Int> = []
  /// Devices without an acknowledgement are given up then.
  private var giveUpAt = Timestamp.zero
  private var isOver = false

  /// One device in this many registers late.
  private static let lateEvery = 10
  /// The pause after a refusal or a missing reply.
  private static let lateAgain: Span = .seconds(1)
  /// Faults end about this long before the load, but not in its first two fifths:
  /// ``ChaosDirector/lastFaultSeconds(_:duration:)``.
  private static let faultless: Span = .seconds(10)

  init(_ fleet: DeviceFleet) { self.fleet = fleet }

  var unknownFate: Int { unacknowledged.count }

  /// Whether a device registers at all. One that sleeps must.
  func registers(_ device: LoadDevice) -> Bool {
    guard fleet.roster.registers(device.index) else { return false }
    guard fleet.options.unregistered > 0, !device.sleeps else { return true }
    let user = UInt64(fleet.roster.user(of: device.index))
    var random = SplitMix64(seed: fleet.options.ownSeed &* 0x9E6D &+ user)
    return fleet.options.unregistered <= Double.random(in: 0..<1, using: &random)
  }

  func registersLate(_ device: LoadDevice) -> Bool {
    fleet.options.isDisturbed && device.index % Self.lateEvery == Self.lateEvery - 1
      && registers(device) && !device.sleeps
  }

  /// - Returns: whether the request was taken by the device.
  @discardableResult
  func register(_ device: LoadDevice) -> Bool {
    var request = RegistrationRequest(
      deviceName: "Device \(device.index)", sdkName: "callload", sdkVersion: "1")
    if let sleep = fleet.sleep, let profile = sleep.profile(device.index) {
      request.voipToken = sleep.voipToken(device.index)
      request.alertToken = sleep.alertToken(device.index)
      request.dialect = profile.dialect.rawValue
      request.sdkName = profile.sdkName
      request.sdkVersion = profile.sdkVersion
      request.capabilities = profile.stated
    }
    return device.submit(.register(request)) != nil
  }

  /// - Parameter reply: nil where none came.
  func replied(_ device: LoadDevice, _ reply: ServerReply?) {
    let isLate = registersLate(device)
    var isAcknowledged = false
    switch reply {
    case .registered:
      isAcknowledged = true
      device.isRegistered = true
      count += 1
      unacknowledged.remove(device.index)
    case .error(let error):
      if !isLate || !error.code.asksForRetry {
        fleet.count("register refused: \(error.code.name)")
      }
    case nil: if !isLate { fleet.count("register: no reply") }
    case .done, .attached, .call, .answer, .calls, .history, .rules:
      fleet.count("register: wrong kind of reply")
    }
    if !isLate {
      fleet.ramp?.registerReplied(device, isAcknowledged: isAcknowledged)
    } else if !isAcknowledged {
      askAgain(device)
    }
  }

  /// Registers the devices whose time has come, and keeps the stage open until all are acknowledged.
  func tick(_ stage: Stage, at now: Timestamp) {
    guard fleet.options.isDisturbed, !stage.isInterrupted else { return }
    if askAt == nil { plan(stage) }
    guard !isOver, let planned = askAt else { return }
    for index in planned.filter({ $0.value <= now }).keys.sorted() { ask(fleet.devices[index]) }

    // A device that was refused for good does not come back in this run.
    let open = unacknowledged.union(askAt?.keys.map { $0 } ?? [])
      .filter { fleet.devices[$0].setup == .connected }
    guard !open.isEmpty else { return }
    if stage.mayStillBeDisturbed {
      giveUpAt = max(giveUpAt, now + settle)
    } else if now < giveUpAt {
      stage.stay(until: now + DeviceFleet.tick)
    } else {
      giveUp(open.sorted(), stage)
    }
  }

  /// A device is given up after this time without faults.
  private var settle: Span { Span(seconds: fleet.options.settleSeconds) }

  /// Spreads the devices evenly over the time in which faults happen.
  private func plan(_ stage: Stage) {
    let late = fleet.devices.filter {
      registersLate($0) && $0.setup == .connected && !$0.isRegistered
    }
    let whole = Double((stage.arrivalsEndAt - stage.startedAt).microseconds)
    let span = max(whole * 0.4, whole - Double(Self.faultless.microseconds))
    giveUpAt = stage.arrivalsEndAt + settle
    var times: [Int: Timestamp] = [:]
    for (place, device) in late.enumerated() {
      let share = (Double(place) + 0.5) / Double(late.count)
      times[device.index] = stage.startedAt + Span(microseconds: Int64(span * share))
    }
    askAt = times
  }

  private func ask(_ device: LoadDevice) {
    askAt?[device.index] = nil
    guard device.setup == .connected else { return }
    unacknowledged.insert(device.index)
    if !register(device) { askAgain(device) }
  }

  private func askAgain(_ device: LoadDevice) {
    askAt?[device.index] = fleet.loop.now + Self.lateAgain
  }

  /// Faults are over, and these devices still have no acknowledgement.
  private func giveUp(_ open: [Int], _ stage: Stage) {
    isOver = true
    // A device without a session can get none.
    let waiting = open.filter { fleet.devices[$0].isAttached }
    for _ in waiting { fleet.count("register: never acknowledged") }
    let names = waiting.prefix(3).map { fleet.roster.party($0).text }.joined(separator: ", ")
    stage.checker.broken(
      .commandLost, count: waiting.count,
      "\(waiting.count) devices were never told that they are registered: \(names)")
  }
}
