package import CallClient
internal import CallCore
package import CallJudge
internal import CallWire

// The simulated app, and the clients that its devices run, as the judge sees them.

extension HistoryChecker {
  /// Judges the simulation's app.
  package init(bounds: Bounds = Bounds()) {
    let app = JudgedApp(
      name: SimOptions.app, onlyPlaces: SimOptions.onlyPlaces,
      nameInToken: SimOptions.displayName, pushData: SimOptions.pushData,
      signal: SignalText.read)
    self.init(app, bounds: bounds)
  }
}

extension HistoryChecker.LastView {
  package init(who: Who, isAttached: Bool, calls: [CallView]) {
    self.init(
      who: who, isAttached: isAttached,
      calls: calls.map {
        HistoryChecker.LastCall(
          call: $0.call, isCaller: $0.role == .caller, phase: $0.phase, won: $0.won, stop: $0.stop)
      })
  }
}
