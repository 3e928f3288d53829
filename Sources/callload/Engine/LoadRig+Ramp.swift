import CallClient
import CallCore
import CallWire

/// Connecting and registering.
extension LoadRig {
  struct Ramp {
    enum Step { case connecting, registering }
    var step = Step.connecting
    let startedAt: Timestamp
    let giveUpAt: Timestamp
    /// The next device to begin with.
    var next = 0
    var inFlight = 0
    /// Done, one way or the other.
    var resolved = 0
    let completion: () -> Void
  }

  /// Connects, attaches and registers every device, but for those that register late. Those that
  /// could not are counted.
  ///
  /// - Throws: what minting a token threw.
  package func connect(_ completion: @escaping () -> Void) throws {
    try makeDevices()
    let now = loop.now
    ramp = Ramp(
      startedAt: now,
      giveUpAt: now + Span(microseconds: Int64(options.rampTimeoutSeconds * 1_000_000)),
      completion: completion)
    progress.update {
      $0 = LoadProgress.Snapshot()
      $0.phase = .connecting
      $0.total = devices.count
    }
    startTicking()
    advanceRamp()
    finishRampIfDone()
  }

  private func makeDevices() throws {
    devices.reserveCapacity(roster.devices)
    for index in devices.count..<roster.devices {
      let user = roster.userName(roster.user(of: index))
      let name = roster.deviceName(index)
      let edges = edges(ofDevice: index)
      var configuration = ClientMachine.Configuration(
        edges: edges.map { options.edges[$0] }, token: try options.mintToken(user, name),
        device: name)
      configuration.client = "callload/1"
      configuration.renewsToken = true
      // Where nothing is to fail, a device that must ask three times is a failure.
      configuration.commandTimeout = options.isDisturbed ? .seconds(7) : .seconds(6)
      configuration.commandAttempts = options.isDisturbed ? 6 : 2
      configuration.endedCallsMax = 4
      devices.append(
        LoadDevice(index: index, edges: edges, rig: self, configuration: configuration))
    }
  }

  /// All edges, in an order of the device's own: they spread evenly, and when one goes its devices
  /// spread over the others.
  private func edges(ofDevice index: Int) -> [Int] {
    var random = SplitMix64(seed: options.seed &* 0x9E37_79B9 &+ UInt64(index))
    return Array(options.edges.indices).shuffled(using: &random)
  }

  /// Begins what the rate and the bound on what is under way allow.
  private func advanceRamp() {
    guard let ramp, ramp.step == .connecting else { return advanceRegistering() }
    if let rate = options.rampPerSecond {
      guard ramp.next < devices.count, !isInterrupted else { return }
      let due = ramp.startedAt + Span(microseconds: Int64(Double(ramp.next) * 1_000_000 / rate))
      guard due <= loop.now else {
        return loop.schedule(at: due) { [weak self] in self?.advanceRamp() }
      }
      beginConnect(due)
      return loop.schedule(at: loop.now) { [weak self] in self?.advanceRamp() }
    }
    while let ramp = self.ramp, ramp.step == .connecting, ramp.next < devices.count,
      ramp.inFlight < options.connectsInFlight, !isInterrupted
    {
      beginConnect(loop.now)
    }
  }

  private func beginConnect(_ intended: Timestamp) {
    guard let next = ramp?.next else { return }
    ramp?.next += 1
    ramp?.inFlight += 1
    let device = devices[next]
    device.setup = .connecting
    device.connectAt = intended
    device.driver.start()
  }

  func deviceAttached(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .connected
    connectedCount += 1
    guard ramp?.step == .connecting else { return }
    setupBook.record(.connect, loop.now - device.connectAt)
    setupStepDone()
  }

  func deviceRefused(_ device: LoadDevice, _ error: CallError) {
    count("device refused: \(error.code.name)")
    let wasConnecting = device.setup == .connecting
    if device.setup == .connected { connectedCount -= 1 }
    device.setup = .refused
    if wasConnecting, ramp?.step == .connecting { setupStepDone() }
  }

  /// Who is no edge to this device will be none the next time.
  func deviceTrustsNobody(_ device: LoadDevice) {
    guard device.setup == .connecting else { return }
    device.setup = .refused
    if ramp?.step == .connecting { setupStepDone() }
  }

  private func advanceRegistering() {
    while let ramp, ramp.step == .registering, ramp.next < devices.count,
      ramp.inFlight < options.connectsInFlight, !isInterrupted
    {
      let device = devices[ramp.next]
      self.ramp?.next += 1
      guard device.setup == .connected, registersInRamp(device.index) else { continue }
      self.ramp?.inFlight += 1
      device.registerAt = loop.now
      sayRegister(device)
    }
  }

  private func registersInRamp(_ device: Int) -> Bool {
    registers(device) && !registersLate(device)
  }

  /// Whether a device registers at all. Who sleeps must.
  func registers(_ device: Int) -> Bool {
    guard roster.registers(device) else { return false }
    guard options.unregistered > 0, sleep?.sleeps(device) != true else { return true }
    var random = SplitMix64(seed: options.seed &* 0x9E6D &+ UInt64(roster.user(of: device)))
    return options.unregistered <= Double.random(in: 0..<1, using: &random)
  }

  @discardableResult
  func sayRegister(_ device: LoadDevice) -> UInt64? {
    say(
      .register(
        registration(device.index)
          ?? RegistrationRequest(
            deviceName: "Device \(device.index)", sdkName: "callload", sdkVersion: "1")), device)
  }

  func registerReplied(_ device: LoadDevice, _ reply: ServerReply?) {
    if registersLate(device.index) { return lateRegisterReplied(device, reply) }
    switch reply {
    case .registered:
      device.isRegistered = true
      registeredCount += 1
      setupBook.record(.register, loop.now - device.registerAt)
    case .error(let error): count("register refused: \(error.code.name)")
    case nil: count("register: no reply")
    case .done, .attached, .call, .answer, .calls: count("register: wrong kind of reply")
    }
    if ramp?.step == .registering { setupStepDone() }
  }

  private func setupStepDone() {
    ramp?.inFlight -= 1
    ramp?.resolved += 1
    // Not from here: this may be deep inside the reading of a device.
    loop.schedule(at: loop.now) { [weak self] in
      self?.advanceRamp()
      self?.finishRampIfDone()
    }
  }

  private func finishRampIfDone() {
    guard let ramp else { return }
    switch ramp.step {
    case .connecting:
      guard ramp.resolved >= devices.count else { return }
      beginRegistering()
    case .registering:
      guard ramp.next >= devices.count, ramp.inFlight == 0 else { return }
      finishRamp()
    }
  }

  private func beginRegistering() {
    rampSeconds = Double((loop.now - (ramp?.startedAt ?? loop.now)).microseconds) / 1_000_000
    ramp?.step = .registering
    ramp?.next = 0
    ramp?.inFlight = 0
    ramp?.resolved = 0
    let registering = devices.count { $0.setup == .connected && registersInRamp($0.index) }
    progress.update {
      $0.phase = .registering
      $0.done = 0
      $0.total = registering
    }
    advanceRegistering()
    finishRampIfDone()
  }

  func rampTick(at now: Timestamp) {
    guard let ramp else { return }
    progress.update { [connectedCount, setupFailures, registeredCount] in
      $0.done = ramp.step == .connecting ? connectedCount : registeredCount
      $0.devicesConnected = connectedCount
      $0.errors = setupFailures.values.reduce(0, +)
    }
    guard ramp.giveUpAt < now else { return }
    if ramp.step == .connecting, connectedCount > 0 {
      // Time is up for those that are still trying; they may yet come, but no longer count here.
      self.ramp?.resolved = devices.count
      beginRegistering()
    } else {
      finishRamp()
    }
  }

  func finishRamp() {
    guard let ramp else { return }
    // A token for them could be made before, or no device would be here.
    try? startProbes()
    if ramp.step == .connecting {
      rampSeconds = Double((loop.now - ramp.startedAt).microseconds) / 1_000_000
    }
    self.ramp = nil
    let missing = devices.count - connectedCount
    if missing > 0 { setupFailures["device: not connected", default: 0] += missing }
    progress.update { [connectedCount] in $0.devicesConnected = connectedCount }
    sendToSleep()
    ramp.completion()
  }
}
