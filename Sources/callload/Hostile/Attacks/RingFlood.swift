import CallCore
import CallWire

extension AttackContext {
  /// Many callers make one user's two devices ring. Each call is cancelled a second later, or the
  /// callers' limits on live calls would end the flood.
  func floodRings() {
    let victims = 2
    let victim = "hostile-victim"
    let fleet = keepSessions { number in
      number < victims ? (victim, "v\(number)") : ("hostile-caller-\(number)", "c")
    }
    paceAttack { [self] in
      guard let (number, session) = fleet.next(of: attack.facts.connections), number >= victims
      else { return }
      let call = callID()
      let address = CallAddress(callee: victim, call: call)
      guard session.say(.place(address, PlaceRequest(call: call, ringTimeoutSeconds: 5)))
      else { return }
      account.attempts += 1
      after(.seconds(1)) { session.say(.call(address, .cancel)) }
    }
  }
}
