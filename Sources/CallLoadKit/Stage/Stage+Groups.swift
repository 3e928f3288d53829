import CallClient
import CallCore

/// The acts of the members of a group when they ring.
extension Stage {
  /// A device of a group's member rings. With the first one of a member that member's part begins.
  func rangMember(_ live: LiveCall, _ device: Int) {
    guard let script = live.plan.script, let terms = live.plan.route.group else { return }
    let member = fleet.roster.user(of: device)
    guard !live.rungMembers.contains(member) else { return }
    live.rungMembers.append(member)
    let place = live.rungMembers.count - 1
    if terms.isInTurn {
      play(place, of: member, script, live, after: live.plan.act)
    } else if live.rungMembers.count == terms.members.count {
      // All ring: one gives the call up after the other.
      for (place, member) in live.rungMembers.prefix(script.passes.count + 1).enumerated() {
        let span = live.plan.act.microseconds + live.plan.then.microseconds * Int64(place)
        play(place, of: member, script, live, after: Span(microseconds: span))
      }
    }
  }

  private func play(
    _ place: Int, of member: Int, _ script: GroupScript, _ live: LiveCall, after span: Span
  ) {
    let time = loop.now + span
    let devices = fleet.roster.devices(of: member)
    var random = SplitMix64(seed: live.plan.seed ^ UInt64(member))
    let actor = Int.random(in: devices, using: &random)
    if place < script.passes.count {
      switch script.passes[place] {
      case .declines: refuse(live, actor, .decline(.everywhere), at: time)
      case .isBusy: for device in devices { refuse(live, device, .busy, at: time) }
      case .waits: break
      }
    } else if !script.isCancelled {
      // A fault may have kept the member from answering in its turn: then the next one does.
      answer(live, actor, at: time)
    } else if place == script.passes.count {
      cancel(live, at: time)
    }
  }
}
