package import CallCore

/// The commands of one device in one call that can end the call, or the device's part in it.
package struct CallActs: OptionSet, Sendable, Hashable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  package static let answer = CallActs(rawValue: 1 << 0)
  package static let declineEverywhere = CallActs(rawValue: 1 << 1)
  package static let declineHere = CallActs(rawValue: 1 << 2)
  package static let busy = CallActs(rawValue: 1 << 3)
  package static let cancel = CallActs(rawValue: 1 << 4)
  package static let hangUp = CallActs(rawValue: 1 << 5)

  package static let decline: CallActs = [.declineEverywhere, .declineHere]
  /// A device that refused takes no further part in the call, which may ring on elsewhere.
  package static let refusal: CallActs = [.decline, .busy]

  /// Empty for a command that ends nothing.
  package init(_ verb: CallVerb) {
    self =
      switch verb {
      case .answer: .answer
      case .decline(.everywhere): .declineEverywhere
      case .decline(.here): .declineHere
      case .busy: .busy
      case .cancel: .cancel
      case .hangUp: .hangUp
      case .alerting, .connected, .signal, .resume, .query: []
      }
  }
}
