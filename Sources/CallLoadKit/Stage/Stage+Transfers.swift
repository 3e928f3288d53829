import CallClient
import CallCore
import CallWire

/// Calls that one side hands over to a third user after the answer.
extension Stage {
  /// A transfer that came to nothing without a word, as faults may have it, is waited for so long.
  private static let timeout: Span = .seconds(40)
  private static let informationDelaysMs: [Int64] = [5, 25, 60]

  /// - Parameter asked: the device that has been asked before.
  func transfer(
    _ live: LiveCall, _ script: TransferScript, _ winner: Int, asked: Int? = nil
  ) {
    let device = devices[script.terms.ofCaller ? live.plan.caller : winner]
    let user = fleet.roster.userName(script.terms.user)
    var request = TransferRequest(to: user)
    if let asked, let second = script.terms.consulted {
      live.asked = asked
      request.device = fleet.roster.party(asked).device
      request.consulted = ConsultedCall(call: second, callee: user)
    }
    if !live.isOver.contains(device.index) {
      device.submit(.call(device.address(live.plan.call), .transfer(request)))
    }
    after(Self.timeout, live.plan.call) { [unowned self] in hangUpTransferred($0) }
  }

  /// - Returns: whether nothing else is to be done about the event.
  func transferHappened(_ live: LiveCall, _ event: CallEvent, _ device: LoadDevice) -> Bool {
    guard let script = live.plan.transfer else { return false }
    let isThird = script.devices.contains(device.index)
    switch event {
    case .invited(let invite) where isThird:
      invited(live, script, device, isAsked: invite.consulted != nil)
    case .won where isThird: took(live, device)
    // Nothing that is timed is about these devices.
    case .stopped where isThird: live.isOver.insert(device.index)
    case .moved: inform(live, device.index)
    case .transfer(let news):
      guard news.reason != nil, let winner = live.winner else { break }
      inform(live, live.plan.caller)
      inform(live, winner)
      transferIsOver(live)
    default: return false
    }
    return true
  }

  /// The fate of the call is known, so it ends some time later. So does the call in which somebody was asked, if it did
  /// not end with the transfer.
  func transferIsOver(_ live: LiveCall) {
    after(live.plan.talk, live.plan.call) { [unowned self] in hangUpTransferred($0) }
    guard let second = live.plan.second?.call else { return }
    after(live.plan.talk, second) { [unowned self] in hangUp($0, winner: $0.winner) }
  }

  // MARK: The third user

  private func invited(
    _ live: LiveCall, _ script: TransferScript, _ device: LoadDevice, isAsked: Bool
  ) {
    let isFirst = live.rungByTransfer.isEmpty
    live.rungByTransfer.insert(device.index)
    // It has agreed, and answers without ringing.
    guard !isAsked else {
      return device.submitAnswer(live.plan.call)
    }
    after(live.plan.alert(device.index), live.plan.call) { live in
      guard !live.isOver.contains(device.index) else { return }
      device.submit(.call(device.address(live.plan.call), .alerting))
    }
    if isFirst {
      after(script.act, live.plan.call) { [unowned self] in act($0, script) }
    } else if live.actsOnTransfer, device.index == live.asked ?? script.actor {
      act(live, script)
    }
  }

  private func act(_ live: LiveCall, _ script: TransferScript) {
    let device = devices[live.asked ?? script.actor]
    guard live.rungByTransfer.contains(device.index) else {
      live.actsOnTransfer = true
      return
    }
    guard !live.isOver.contains(device.index) else { return }
    guard !script.answers else { return device.submitAnswer(live.plan.call) }
    device.submit(.call(device.address(live.plan.call), .decline(.everywhere)))
  }

  private func took(_ live: LiveCall, _ device: LoadDevice) {
    live.taker = device.index
    device.submit(.call(device.address(live.plan.call), .connected))
    inform(live, device.index)
    transferIsOver(live)
  }

  // MARK: Both sides

  /// Sends some informations, to be judged as one stream to whoever has the other side now.
  private func inform(_ live: LiveCall, _ device: Int) {
    for delay in Self.informationDelaysMs {
      after(.milliseconds(delay), live.plan.call) { [unowned self] live in
        guard !live.isOver.contains(device) else { return }
        let next = NumberedCandidate(sender: device, number: (live.candidatesSent[device] ?? 0) + 1)
        let signal = CallVerb.signal(.information, body: next.body)
        let address = devices[device].address(live.plan.call)
        if devices[device].submit(.call(address, signal)) != nil {
          live.candidatesSent[device] = next.number
        }
      }
    }
  }

  /// One of those who have the sides now hangs up.
  private func hangUpTransferred(_ live: LiveCall) {
    guard let script = live.plan.transfer, let winner = live.winner else { return }
    let (ofCaller, plan) = (script.terms.ofCaller, live.plan)
    let sides = [
      ofCaller ? live.taker ?? plan.caller : plan.caller,
      ofCaller ? winner : live.taker ?? winner,
    ]
    let order = plan.hangUpByCaller ? sides : sides.reversed()
    guard let leaver = order.first(where: { !live.isOver.contains($0) }),
      live.hangingUp.isDisjoint(with: sides)
    else { return }
    live.hangingUp.insert(leaver)
    devices[leaver].submit(.call(devices[leaver].address(plan.call), .hangUp))
  }
}

extension LoadDevice {
  fileprivate func submitAnswer(_ call: CallID) {
    submit(.call(address(call), .answer(description: LiveCall.description)))
  }
}
