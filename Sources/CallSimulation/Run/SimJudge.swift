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
      nameInToken: SimOptions.displayName, pushData: SimOptions.pushData)
    self.init(app, bounds: bounds)
  }
}

extension HistoryEvent {
  /// A client hands an event to its app.
  package static func told(_ who: Who, _ event: ClientEvent) -> HistoryEvent {
    let news: AppNews? =
      switch event {
      case .call(let call, let event): AppNews(call, event)
      case .gaveUp(_, let command): .gaveUp(command)
      case .replied(_, let command, .error(let error)): .failed(command, error)
      case .ongoing(let calls): .ongoing(calls)
      case .attached, .detached, .notTrusted, .refused, .replied, .notice, .history, .relays: nil
      }
    return .heard(who, news)
  }
}

extension AppNews {
  fileprivate init(_ call: CallID, _ event: CallEvent) {
    self =
      switch event {
      case .won: .won(call)
      case .invited(let invite): .delivered(call, .invite(invite))
      case .ringing(let party): .delivered(call, .ringing(by: party))
      case .answered(let answered): .delivered(call, .answered(answered))
      case .stopped(let stop): .delivered(call, .stop(stop))
      case .signal(let signal): .delivered(call, .signal(signal))
      case .moved(let moved): .delivered(call, .moved(moved))
      case .transfer(let news): .delivered(call, .transfer(news))
      case .ringsUntil(let deadline): .delivered(call, .ringsUntil(deadline))
      }
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
