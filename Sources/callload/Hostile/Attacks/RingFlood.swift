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
    paceAttack(fleet) { [self] session, number in
      number >= victims && placeAndCancel(session, to: victim)
    }
  }
}
