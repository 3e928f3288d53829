import CallCore
import CallWire

/// Groups of the twin: their members ring together, or one after the other.
extension FaultyTwin {
  func ringGroup(_ call: Call, _ group: CallGroup) {
    // The devices that ring are not those of the user who was called.
    call.target = ""
    var members = group.users
    if group.order == .longestIdle {
      let talks = groupTalks[call.callee] ?? [:]
      let never = Timestamp(microseconds: 0)
      members = members.enumerated().sorted { one, other in
        let (a, b) = (talks[one.element] ?? never, talks[other.element] ?? never)
        return a == b ? one.offset < other.offset : a < b
      }.map(\.element)
    }
    if group.order == .together {
      for member in members { ring(call, member) }
      return
    }
    if plays(.ringsOutOfOrder, call) { members.reverse() }
    call.turn = .seconds(Int64(group.turnSeconds))
    call.queue = members
    ringNext(call)
  }

  private func ring(_ call: Call, _ user: String) {
    let devices = sessions.keys.filter { $0.user == user }
    for party in devices.sorted(by: { $0.device.text < $1.device.text }) {
      call.legs.append(Leg(party: party))
      invite(call, call.legs.count - 1)
    }
  }

  /// The next member's turn begins.
  /// - Returns: false where no member is left.
  @discardableResult
  func ringNext(_ call: Call) -> Bool {
    guard case .ringing = call.stage, !call.queue.isEmpty else { return false }
    if call.turns > 0, plays(.forgetsTheNextMember, call) {
      call.queue = []
      return true
    }
    let user = call.queue.removeFirst()
    call.turns += 1
    ring(call, user)
    let turns = call.turns
    let turn = plays(.cutsATurnShort, call) ? .seconds(2) : call.turn
    later(turn) { [self] in
      guard case .ringing = call.stage, call.turns == turns, !call.queue.isEmpty else { return }
      let isMissed = plays(.tellsAMemberThatItMissed, call)
      stopMember(call, user, Stop(reason: .unanswered, missed: isMissed))
      ringNext(call)
    }
    return true
  }

  /// A member declines: its devices stop, and the call goes on for the others.
  func declineForMember(_ call: Call, _ leg: Int) -> ServerReply? {
    let party = call.legs[leg].party
    call.legs[leg].isLive = false
    stopMember(call, party.user, Stop(reason: .declined, by: party))
    if !ringNext(call), !call.legs.contains(where: \.isLive) {
      end(call, .declined, by: party, silent: party)
    }
    return .call(state(call, party))
  }

  private func stopMember(_ call: Call, _ user: String, _ stop: Stop) {
    for leg in call.legs.indices where call.legs[leg].isLive && call.legs[leg].party.user == user {
      call.legs[leg].isLive = false
      call.legs[leg].left = stop.reason
      tell(call, call.legs[leg].party, .stop(stop))
    }
  }

  func noteTalk(_ call: Call) {
    guard groups[call.callee] != nil, let user = call.answerer?.user else { return }
    groupTalks[call.callee, default: [:]][user] = loop.now
  }
}
