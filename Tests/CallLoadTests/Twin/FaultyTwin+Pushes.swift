import CallClient
import CallCore
import CallWire

/// The twin's pushes to devices without a session, and the clean-up pushes that they accept.
extension FaultyTwin {
  /// The callee's devices without a session are legs, too.
  func pushSleepers(_ call: Call) {
    let sleepers = pushable.keys.filter { $0.user == call.target && sessions[$0] == nil }
    for party in sleepers.sorted(by: { $0.device.text < $1.device.text }) {
      call.legs.append(Leg(party: party))
      let leg = call.legs.count - 1
      call.legs[leg].isPushed = true
      if plays(.pushesAfterEnd, call) {
        call.legs[leg].isPushHeld = true
        continue
      }
      push(call, leg, .ring)
      if plays(.pushesTwice, call) { push(call, leg, .ring) }
    }
  }

  /// The call no longer rings: the one clean-up that each sleeping device takes, if it takes one.
  func cleanUpSleepers(_ call: Call, _ reason: EndReason, by: Party?) {
    for leg in call.legs.indices where call.legs[leg].isPushed && !call.legs[leg].wasTold {
      if call.legs[leg].isPushHeld {
        later(.milliseconds(1500)) { [weak self] in self?.push(call, leg, .ring) }
        continue
      }
      // A device that ended its own part needs no push.
      guard call.legs[leg].isLive else { continue }
      let takes = takes(call.legs[leg].party)
      let wanted: [(PushCapabilities, PushPurpose)] = [
        reason.isMissedCall ? (.missed, .missed) : (.answeredElsewhere, .answeredElsewhere),
        (.cancel, .cancel), (.ended, .ended),
      ]
      if let (_, purpose) = wanted.first(where: { takes.contains($0.0) }) {
        push(call, leg, purpose, reason: reason, by: by)
      }
      if !takes.contains(.cancel), plays(.cleansUpUnasked, call) {
        push(call, leg, .cancel, reason: reason, by: by)
      }
      if isMissed(call, reason), takes.contains(.missedNotice) {
        push(call, leg, .missedNotice, reason: reason, by: by)
      }
    }
  }

  func push(
    _ call: Call, _ leg: Int, _ purpose: PushPurpose, reason: EndReason? = nil, by: Party? = nil
  ) {
    let party = call.legs[leg].party
    guard let request = pushable[party] else { return }
    let isAlert = purpose == .ended || purpose == .missedNotice
    guard let token = isAlert ? request.alertToken ?? request.voipToken : request.voipToken else {
      return
    }
    pushCount += 1
    let number = pushCount
    let job = PushJob(
      user: UserKey(app: "load", user: party.user), device: party.device, call: call.id,
      purpose: purpose, token: token, dialect: PushDialect(rawValue: request.dialect) ?? .callmesh,
      caller: call.caller, video: false, headers: [], placedAt: call.placedAt,
      ringDeadline: call.deadline, decidedAt: loop.now, deadline: call.deadline, reason: reason,
      by: by)
    loop.schedule(at: loop.now + .milliseconds(3)) { [weak self] in self?.onPush?(job, number) }
  }

  /// A device without a session refuses a call, with what a push allows.
  /// - Parameter scope: nil: it is busy.
  /// - Returns: nil: there is no such call.
  func refuse(_ call: CallID, _ party: Party, _ scope: DeclineScope?) -> CallState? {
    guard let call = calls[call], leg(call, party) != nil else { return nil }
    switch scope {
    case .everywhere: _ = declineEverywhere(call, party)
    case .here: _ = leave(call, party, .declined)
    case nil: _ = leave(call, party, .busy)
    }
    return state(call, party)
  }
}
