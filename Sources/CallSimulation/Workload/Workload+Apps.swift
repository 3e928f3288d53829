internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// The reactions of people's apps to the events of their devices.
extension Workload {
  /// The user signs out of the account on this phone, and in again later.
  func signOut(_ device: SimDevice) {
    guard isActive, device.isOn else { return }
    world.count("token.signed out")
    device.submit(.unregister(nil))
    device.after(.milliseconds(400)) { [weak self] in
      guard let self else { return }
      away(device, .signOff(random.span(.seconds(1), .seconds(8))))
    }
  }

  /// A device's app was notified.
  func received(_ device: SimDevice, _ event: ClientEvent) {
    push?.received(device, event)
    switch event {
    case .attached(_, let again):
      if random.chance(again ? 0.2 : 0.8) { register(device) }
    case .refused:
      // The user signs in again, after a while.
      later(random.span(.milliseconds(500), .seconds(3))) {
        device.kill(silently: false)
        $0.comeBack(device, after: .milliseconds(50))
      }
    case .call(let call, let event): received(device, call, event)
    case .replied(_, .history(.list), .history(let page)):
      newestRead[device.who] = page.items.first?.cursor
    case .detached, .notTrusted, .replied, .gaveUp, .notice, .ongoing, .history, .relays: break
    }
  }

  private func received(_ device: SimDevice, _ call: CallID, _ event: CallEvent) {
    guard let script = running[call]?.script else { return }
    switch event {
    case .invited(let invite):
      if invite.transferredBy != nil { running[call]?.rungForTransfer.insert(device.who) }
      if device.calls[call]?.callee.isEmpty == false || invite.ringsAnew {
        decide(device, call, asked: invite.consulted != nil)
      }
      guard script.alerts else { return }
      device.after(random.span(.milliseconds(2), .milliseconds(300))) {
        if device.rings(call) { device.submit(.call(device.address(call), .alerting)) }
      }
    case .won where device.ignores(call): world.count("app.ignores the call of its former run")
    case .won:
      if device.calls[call]?.role == .caller {
        running[call]?.caller = device
      } else if running[call]?.winner == nil || running[call]?.pulling.contains(device.who) ?? false
        || running[call]?.rungForTransfer.contains(device.who) ?? false
      {
        running[call]?.winner = device
      }
      connect(device, call, script)
    case .answered: connect(device, call, script)
    case .stopped(let stop): stopped(device, call, stop.reason)
    case .ringing, .ringsUntil, .signal, .moved, .transfer: break
    }
  }

  /// Its user calls back, now and then, while the call may go on elsewhere.
  private func stopped(_ device: SimDevice, _ call: CallID, _ reason: EndReason) {
    guard options.callsBack, device.calls[call]?.role == .callee,
      [.unanswered, .declined, .busy].contains(reason), random.chance(0.3),
      let caller = running[call]?.caller?.who.user
    else { return }
    device.after(random.span(.milliseconds(20), .seconds(3))) { [weak self] in
      self?.callBack(device, caller)
    }
  }

  /// The call was not to this user, so its script has no step for this device; where everybody declines, most do here, too.
  /// - Parameter asked: the user has agreed to it in the call in which the device was asked.
  private func decide(_ device: SimDevice, _ call: CallID, asked: Bool) {
    let isRefusing = running[call]?.script.kind == .declinedHere && random.chance(0.8)
    let verb: CallVerb? =
      switch asked ? 7 : isRefusing ? 1 : random.below(8) {
      case 0: .decline(.everywhere)
      case 1: .decline(.here)
      case 2: .busy
      case 3: nil
      default: .answer(description: "sdp")
      }
    device.after(asked ? .milliseconds(20) : random.span(.milliseconds(50), .seconds(4))) {
      if let verb, device.rings(call) { device.submit(.call(device.address(call), verb)) }
    }
  }

  private func connect(_ device: SimDevice, _ call: CallID, _ script: CallScript) {
    guard isActive else { return device.submit(.call(device.address(call), .hangUp)) }
    guard script.connects else { return }
    device.after(random.span(.milliseconds(20), .milliseconds(800))) {
      device.submit(.call(device.address(call), .connected))
    }
  }

  func answered(_ call: CallID) {
    guard let script = running[call]?.script, running[call]?.isAnswered == false else { return }
    running[call]?.isAnswered = true
    for step in script.stepsFromAnswer { schedule(step, call) }
    if running[call]?.about != nil {
      later(random.span(.milliseconds(100), .seconds(2))) { $0.handOverAsked(call) }
    }
  }
}
