package import CallCore
package import CallMachine
package import CallWire

/// An event that a client hands to its app.
package enum AppNews: Sendable {
  /// The client passes a delivery on, or says the same of its own accord.
  case delivered(CallID, Delivery.Event)
  /// The device has the call.
  case won(CallID)
  /// No attempt of a command got a reply.
  case gaveUp(ClientCommand)
  /// The last reply to a command is an error.
  case failed(ClientCommand, CallError)
  /// The answered calls that the user is in.
  case ongoing([OngoingCall])
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
