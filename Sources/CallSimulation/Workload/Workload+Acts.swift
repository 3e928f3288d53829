internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// The acts of people in a call beside answering and ending it.
extension Workload {
  func callBack(_ device: SimDevice, _ user: String) {
    guard isActive, device.isOn, !device.isAsleep,
      let callee = devices.first(where: { $0.user.hasBytes(of: user) })
    else { return }
    place(from: device, to: callee, .crossing(&random))
  }

  /// Other devices of a user take its call over. Each tries once in a call.
  func pull(_ address: CallAddress, from holder: SimDevice, _ count: Int) {
    let call = address.call
    guard let now = running[call], now.isAnswered else { return }
    let others = allDevices.filter {
      $0.who.user.hasBytes(of: holder.who.user) && $0 !== now.caller && $0 !== now.winner
        && $0.isOn && !now.pulling.contains($0.who)
    }
    for device in others.shuffled(using: &random).prefix(count) {
      running[call]?.pulling.insert(device.who)
      let request = PullRequest(from: DeviceID(holder.who.device), description: "offer")
      device.submit(.call(address, .pull(request)))
    }
  }

  /// To any other user; now and then to one who is in the call, which is refused.
  func transfer(_ address: CallAddress, from device: SimDevice) {
    guard isActive, running[address.call]?.isAnswered == true, let user = random.pick(devices)?.user
    else { return }
    device.submit(.call(address, .transfer(TransferRequest(to: user))))
  }

  /// The device calls another user to ask about an answered call.
  func consult(_ call: CallID, from device: SimDevice) {
    let others = devices.filter {
      !$0.user.hasBytes(of: device.who.user) && !$0.devices.isEmpty
    }
    guard isActive, device.isOn, !device.isAsleep, running[call]?.isAnswered == true,
      let callee = random.pick(others)
    else { return }
    place(from: device, to: callee, .asking(&random), about: call)
  }

  /// Hands over the call about which a device has asked, once who was asked has answered.
  func handOverAsked(_ asking: CallID) {
    guard isActive, let now = running[asking], let call = now.about, let winner = now.winner,
      // An app that was started again has forgotten both.
      let caller = now.caller, caller.calls[call]?.phase == .answered,
      caller.calls[asking]?.phase == .answered
    else { return }
    let consulted = ConsultedCall(call: asking, callee: now.address.callee)
    let request = TransferRequest(
      to: winner.who.user, device: DeviceID(winner.who.device), consulted: consulted)
    caller.submit(.call(caller.address(call), .transfer(request)))
  }
}
