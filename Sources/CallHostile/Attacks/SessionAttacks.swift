import CallCore
import CallWire

extension AttackContext {
  /// Attaches as many devices of one user as possible; then all disconnect at once.
  func floodSessions() {
    let fleet = keepSessions(
      { ("hostile-sessions", "s\($0)") },
      prepare: { [self] _, _ in account.attempts += 1 })
    every(.seconds(4)) {
      for session in Array(fleet.members.values) { session.leave() }
    }
  }

  /// Calls that end at once cost a decision and a record; descriptions go into the journal and memory.
  func floodPlaces(descriptionBytes: Int = 0, by user: @escaping (_ number: Int) -> String) {
    let fleet = keepSessions { (user($0), "p\($0)") }
    var callee = 0
    paceAttack(fleet) { [self] session, _ in
      callee += 1
      return session.send(place(to: "nobody-\(callee)", descriptionBytes: descriptionBytes))
    }
  }

  /// Many callers ring one user's two devices, and cancel a second later because live calls are limited.
  func floodRings() {
    let victims = 2
    let victim = "hostile-victim"
    let fleet = keepSessions { number in
      number < victims ? (victim, "v\(number)") : ("hostile-caller-\(number)", "c")
    }
    paceAttack(fleet) { [self] session, number in
      number >= victims && placeAndCancel(session, to: victim)
    }
  }

  /// Even numbers call the odd ones after them, which answer at once and acknowledge nothing.
  func floodCandidates() {
    var live: [Int: CallAddress] = [:]
    let body = String(repeating: "c", count: 8_000)
    let fleet = keepSessions(
      { ("hostile-candidates-\($0)", "c") },
      prepare: { [self] session, number in
        guard number.isMultiple(of: 2) else {
          session.onInvite = { session, call in
            session.send(.call(CallAddress(call: call), .answer(description: "answer")))
          }
          return
        }
        session.onAttached = { [self] in live[number] = callPartner($0, number) }
        session.onStopped = { [self] session in
          // Refused candidates end here as well: at most one new call a second.
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
        if session.send(.call(address, .signal(.candidate, body: body))) { account.attempts += 1 }
        return
      }
    }
  }

  /// - Returns: the call; nil where it could not be placed.
  private func callPartner(_ session: AttackSession, _ number: Int) -> CallAddress? {
    let call = callID()
    let address = CallAddress(callee: "hostile-candidates-\(number + 1)", call: call)
    return session.send(.place(address, PlaceRequest(call: call))) ? address : nil
  }

  /// A whole app: many users, each within a user's limits, together far beyond what one app should do.
  func floodApp() {
    let count = attack.facts.connections
    let fleet = keepSessions(
      { ("hostile-app-\($0)", "a") },
      prepare: { session, number in
        guard number < 200 else { return }
        session.onAttached = { session in
          session.send(
            .register(RegistrationRequest(deviceName: "a", sdkName: "callload", sdkVersion: "1")))
        }
      })
    paceAttack(fleet) { [self] session, number in
      let partner = Int.random(in: 1..<count, using: &random)
      return placeAndCancel(
        session, to: "hostile-app-\((number + partner) % count)", descriptionBytes: 4_000)
    }
  }
}
