import CallClient
import CallCore
import CallWire

/// The fleet's devices, and what they pass on to the ramp, the registrations and the stage.
extension DeviceFleet {
  func makeDevice(_ index: Int) throws -> LoadDevice {
    let user = roster.userName(roster.user(of: index))
    let name = roster.deviceName(index)
    // All edges in the device's own order, so that devices spread evenly, also when an edge is gone.
    var random = SplitMix64(seed: options.ownSeed &* 0x9E37_79B9 &+ UInt64(index))
    let edges = Array(options.edges.indices).shuffled(using: &random)
    var configuration = ClientMachine.Configuration(
      edges: edges.map { options.edges[$0] }, token: try options.mintToken(user, name),
      device: name)
    configuration.client = "callload/1"
    configuration.renewsToken = true
    // Without faults, a device that needs a third attempt is a failure.
    configuration.commandTimeout = options.isDisturbed ? .seconds(7) : .seconds(6)
    configuration.commandAttempts = options.isDisturbed ? 6 : 2
    // As long as its attempts take: under faults a reply may be later than people wait for one.
    configuration.placePatience = .seconds(42)
    // The judge of the apps' events expects a client to know its calls for as long as a shard retransmits.
    configuration.endedCallsMax = options.events == nil ? 4 : 64
    // The judge examines what the cluster says of calls.
    configuration.ringGrace = nil
    if let spread = options.reconnectSpreadSeconds {
      configuration.reconnectSpread = Span(seconds: spread)
    }
    configuration.wantsOngoing = options.showsOngoing(to: index)
    configuration.followsNearer = options.followsNearer
    configuration.nearerSpread = Self.nearerSpread
    configuration.nearerPause = .seconds(10)
    return LoadDevice(index: index, edges: edges, fleet: self, configuration: configuration)
  }

  func renewToken(_ device: LoadDevice) {
    let token = try? options.mintToken(
      roster.userName(roster.user(of: device.index)), roster.deviceName(device.index))
    device.driver.tokenRenewed(token)
  }

  func linkClosed(_ device: LoadDevice, _ link: ClientMachine.Link, _ cause: LinkClosed) {
    tap?.closed(device.index, link)
    switch link {
    case .current:
      if stage?.faults.excuses(device) != true { count("device: \(cause.kind)") }
      if options.isDisturbed, device.isAttached, device.lostAt == nil { device.lostAt = loop.now }
      stage?.faults.lost(device)
      willDisconnect(device)
    // It still has its former connection.
    case .next: count("device, moving: \(cause.kind)")
    }
  }

  /// The device is about to lose its connection, by accident or as its part plans.
  func willDisconnect(_ device: LoadDevice) {
    device.ping = nil
    device.hasSession = false
    stage?.checker.detached(device: device.index, from: device.calls, at: loop.now)
  }

  func handle(_ event: ClientEvent, _ device: LoadDevice) {
    tap?.heard(event, device)
    switch event {
    case .attached(_, let again): attached(device, again: again)
    case .detached: detached(device)
    case .ongoing, .history, .relays: break
    case .notTrusted: ramp?.failed(device)
    case .refused(let error):
      count("device refused: \(error.code.name)")
      if device.setup == .connected { connectedCount -= 1 }
      ramp?.failed(device)
      device.setup = .refused
    case .replied(_, .register, let reply): registrations.replied(device, reply)
    case .replied(_, .rules, let reply): forwarding.replied(device, reply)
    case .replied(let request, let command, let reply):
      stage?.replied(device, request, command, reply)
    case .gaveUp(let request, let command):
      if case .register = command { registrations.replied(device, nil) }
      if case .ping = command { device.ping = nil }
      if case .rules = command { forwarding.replied(device, nil) }
      stage?.gaveUp(device, request, command)
    case .notice(let notice):
      if !isExpected(notice, device), stage?.faults.excuses(device) != true {
        count("notice: \(notice.kind.name)")
      }
    case .call(let call, let event): stage?.happened(call, event, device)
    }
  }

  /// Its session is over. Where the device itself has closed the connection, since it learned that its session was
  /// replaced, or received nothing for too long, nothing else says so.
  private func detached(_ device: LoadDevice) {
    guard options.isDisturbed, !device.driver.isSuspended, device.hasSession else { return }
    device.lostAt = loop.now
    stage?.faults.lost(device)
    willDisconnect(device)
  }

  private func isExpected(_ notice: Notice, _ device: LoadDevice) -> Bool {
    switch notice.kind {
    case .tokenExpires, .nearer: true
    // A device that moves replaces its own session.
    case .sessionReplaced: options.followsNearer && device.driver.machine.state != .stopped
    case .unknown, .deviceRemoved, .goAway, .tokenTaken: false
    }
  }

  private func attached(_ device: LoadDevice, again: Bool) {
    device.hasSession = true
    ramp?.attached(device)
    stage?.faults.attached(device, lostAt: device.lostAt.take())
    if let call = device.wokenFor.take() {
      stage?.pushes?.wokenAttached(device, call)
      if stage?.live[call] == nil {
        // It came too late, was notified of that, and no call keeps it awake.
        loop.schedule(at: loop.now + .milliseconds(500)) { device.fallAsleep() }
      }
    }
    if again { stage?.attachedAgain(device) }
  }
}
