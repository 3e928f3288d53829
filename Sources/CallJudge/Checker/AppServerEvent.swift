package import CallCore
package import CallWire

/// A request of the app's server to the cluster, by HTTP.
package enum AppErrand: Sendable, Equatable {
  case rules(UserRules, of: String)
  case name(String, of: String)
  case place(HTTPBodies.PlaceCall)
  case end(CallAddress)
  case look(CallAddress)
  /// A page of the app's live calls.
  case live(before: AppCallPlace?)
  case calls(of: String)
  case history(before: HistoryCursor?, of: String)
  case markRead(HistoryCursor, of: String)

  /// Small pages, so that there are several.
  package static let pageSize = 5

  package var call: CallID? {
    switch self {
    case .rules, .name, .live, .calls, .history, .markRead: nil
    case .place(let body): body.call
    case .end(let address), .look(let address): address.call
    }
  }
}

package enum AppAnswer: Sendable, Equatable {
  case rules(UserRules)
  case name(String)
  case call(AppCall)
  case calls(AppCalls)
  case history(HistoryPage)
  case error(CallError)
}

/// Observations of the app's server.
package enum AppServerEvent: Sendable {
  /// It asks for that, as often as it gets no answer.
  case asked(AppErrand)
  /// `since`: when the request that was answered was sent.
  case answered(AppErrand, AppAnswer, since: Timestamp = Timestamp(microseconds: 0))
  /// It asks no more, and does not know what came of it.
  case gaveUp(AppErrand)
  /// Its hook was asked about a call: what the edge that asked got.
  case hook(CallID, HookReply)
}
