internal import CallCore
internal import CallWire

/// Mistakes with what shards send to devices.
extension Tampering {
  /// - Returns: nil: it is lost.
  func changed(_ reply: Reply, in item: EdgeItem, to subject: String) -> Reply? {
    switch (sabotage, reply) {
    case (.winnerNotTold, .answer(won: true, _)): return nil
    case (.repliesLost, .call(let state)) where state.phase == .ended: return nil
    case (.winnerToldItLost, .answer(won: true, let state)):
      won[state.call] = EdgeSession(subject: subject, session: item.session)
      return reply
    case (.refusedForNothing, .call(let state)) where state.phase == .ringing:
      return .error(CallError(.wrongState))
    case (.liveCallUnlisted, .app(.calls(var list))):
      list.calls = Array(list.calls.dropFirst())
      return .app(.calls(list))
    default: return reply
    }
  }

  /// - Returns: the items to send in place of one.
  func changed(_ delivery: Delivery, in item: EdgeItem, to subject: String) -> [EdgeItem] {
    var delivery = delivery
    func again() -> EdgeItem { EdgeItem(session: item.session, body: .delivery(delivery)) }
    switch (sabotage, delivery.event) {
    case (.notRepeated, _):
      let key = Said(session: item.session, call: delivery.call, version: delivery.version)
      return said.insert(key).inserted ? [item] : []
    case (.moveNotTold, .moved): return []
    case (.transferEndUntold, .transfer(let news)): return news.reason == nil ? [item] : []
    case (.versionGoesBack, .stop):
      delivery.version = (delivery.version >> 20) << 20
      return [again()]
    case (.inviteAfterStop, .stop):
      delivery.version += 7
      delivery.event = .invite(
        Invite(caller: Party(user: "u1", device: "d0"), deadline: delivery.at))
      return [item, again()]
    case (.endToldTwice, .stop(var stop)):
      stop.reason = stop.reason == .failed ? .cancelled : .failed
      delivery.version += 1
      delivery.event = .stop(stop)
      return [item, again()]
    case (.signalsEmptied, .signal(var signal)) where signal.index.isMultiple(of: 3):
      signal.body = ""
      delivery.event = .signal(signal)
      return [again()]
    case (_, .invite(var invite)):
      change(&invite)
      delivery.event = .invite(invite)
      return [again()]
    case (_, .stop(var stop)):
      let session = EdgeSession(subject: subject, session: item.session)
      guard change(&stop, of: delivery.call, to: session) else { return [] }
      delivery.event = .stop(stop)
      return [again()]
    default: return [item]
    }
  }

  private func change(_ invite: inout Invite) {
    switch sabotage {
    case .secondCallHidden: invite.isSecondCall = false
    case .secondCallInvented: invite.isSecondCall = true
    case .forwarderNotNamed: invite.divertedBy = ""
    case .transferorNotNamed: invite.transferredBy = nil
    default: break
    }
  }

  /// - Returns: whether the device gets it.
  private func change(_ stop: inout Stop, of call: CallID, to session: EdgeSession) -> Bool {
    switch sabotage {
    case .survivorNotNamed: stop.survivor = nil
    case .callerNotTold: return callers[call] != session.session
    case .losersNotStopped: return stop.reason != .answeredElsewhere
    case .formerNotStopped: return stop.reason != .moved
    case .endToldAsMoved: if stop.reason == .hungUp { stop.reason = .moved }
    case .callerToldOtherwise:
      if stop.reason == .hungUp, callers[call] == session.session { stop.reason = .failed }
    case .winnerMisnamed: if stop.reason == .answeredElsewhere { stop.by?.device = "d7" }
    case .winnerToldItLost: if won[call] == session { stop.reason = .answeredElsewhere }
    case .stopWithoutReason: stop = Stop(reason: .failed)
    case .missedMistold: stop.missed.toggle()
    default: break
    }
    return true
  }
}
