import CallCore
import CallWire

extension AttackContext {
  /// Even numbers call the odd ones after them, which answer at once and acknowledge nothing.
  func floodCandidates() {
    var live: [Int: CallAddress] = [:]
    let body = String(repeating: "c", count: 8_000)
    let fleet = keepSessions(
      { ("hostile-candidates-\($0)", "c") },
      prepare: { [self] session, number in
        guard number.isMultiple(of: 2) else {
          session.onInvite = { session, call in
            session.say(.call(CallAddress(call: call), .answer(description: "answer")))
          }
          return
        }
        session.onAttached = { [self] in live[number] = callPartner($0, number) }
        session.onStopped = { [self] session in
          // Also each candidate that was refused ends here: one new call a second at most.
          guard live.removeValue(forKey: number) != nil else { return }
          after(.seconds(1)) { [self] in
            if session.isAttached { live[number] = callPartner(session, number) }
          }
        }
      })
    paceAttack { [self] in
      // The next caller: between two of them is a callee.
      for _ in 0..<2 {
        guard let (number, session) = fleet.next(of: attack.facts.connections) else { return }
        guard let address = live[number] else { continue }
        if session.say(.call(address, .signal(.candidate, body: body))) { account.attempts += 1 }
        return
      }
    }
  }

  /// - Returns: the call; nothing where it could not be placed.
  private func callPartner(_ session: AttackSession, _ number: Int) -> CallAddress? {
    let call = callID()
    let address = CallAddress(callee: "hostile-candidates-\(number + 1)", call: call)
    return session.say(.place(address, PlaceRequest(call: call))) ? address : nil
  }
}
