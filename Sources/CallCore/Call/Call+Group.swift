/// Members of a group who ring one after the other. The journal has the whole order from the start: so each new owner
/// goes on where the last one was.
extension Call {
  /// How the call came to the group as whose member a user has its turn; nil: it has none.
  func queue(of user: String) -> DivertedFacts? { route.queue(of: user) }

  /// The user whose turn follows that of a user; nil: there is none.
  func next(after user: String) -> String? {
    guard rings(user) else { return nil }
    return queue(of: user)?.queue.first { !isTaken($0) }
  }

  /// The next member rings in place of this one.
  /// - Returns: false where it is nobody's turn.
  mutating func callNext(
    after user: String, _ reason: DivertReason, by: Party? = nil, silent: Int? = nil,
    _ turn: inout Turn
  ) -> Bool {
    guard isSearching, turn.mayDivert, let next = next(after: user), let queue = queue(of: user),
      let deadline = deadline(after: queue.ringSlot, turn)
    else { return false }
    goOn(
      DivertedFacts(
        from: user, to: [next], reason: reason, by: by, at: turn.now, deadline: deadline),
      silent: silent, &turn)
    return true
  }

  /// The member whose turn it is cannot be reached: the next one's begins at once.
  mutating func callNextMember(_ turn: inout Turn) -> Bool {
    guard let member = guests.last(where: { rings($0.user) && queue(of: $0.user) != nil }) else {
      return false
    }
    return callNext(after: member.user, .turn, &turn)
  }
}

extension Span {
  /// The turn of each member where the whole time is fixed: as long as they are to have, or equal parts of the time, but not
  /// less than a turn may be.
  func share(of ring: Span, for members: Int) -> Span {
    let part = Span(microseconds: ring.microseconds / Int64(max(1, members)))
    return min(self, max(part, .seconds(Int64(CallGroup.turnRange.lowerBound))))
  }
}
