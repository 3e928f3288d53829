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
    paceAttack { [self] in
      guard let (number, session) = fleet.next(of: count) else { return }
      let call = callID()
      let partner = Int.random(in: 1..<count, using: &random)
      let address = CallAddress(callee: "hostile-app-\((number + partner) % count)", call: call)
      let request = PlaceRequest(
        call: call, ringTimeoutSeconds: 5, description: String(repeating: "d", count: 4_000))
      guard session.say(.place(address, request)) else { return }
      account.attempts += 1
      after(.seconds(1)) { session.say(.call(address, .cancel)) }
    }
  }
}
