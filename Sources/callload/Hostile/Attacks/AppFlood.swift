import CallCore
import CallWire

extension AttackContext {
  /// A whole app, not one user: many users, each within what one user may do, together far beyond what
  /// one app should.
  func floodApp() {
    let count = attack.facts.connections
    let fleet = keepSessions(
      { ("hostile-app-\($0)", "a") },
      prepare: { session, number in
        guard number < 200 else { return }
        session.onAttached = { session in
          session.say(
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
