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
      case .alerting, .connected, .pull, .transfer, .cancelTransfer, .signal, .resume, .query: []
      }
  }
}

/// The end of a call, as a device was notified of it or as a journal holds it.
package struct CallEnd<Device: Hashable & Sendable>: Equatable, Sendable {
  package var reason: EndReason
  /// The device that ended the call; nil where none is named.
  package var by: Device?

  package init(reason: EndReason, by: Device?) {
    self.reason = reason
    self.by = by
  }
}

extension EndReason {
  /// Whether an answered call can end like this.
  package var followsAnswer: Bool {
    self == .hungUp || self == .failed || self == .transferred
  }
  /// Whether one leg can end like this while the call goes on.
  package var isOwnPart: Bool { self == .declined || self == .busy || self == .unreachable }
}

package enum EndObjection: Equatable, Sendable {
  /// No call with this course can end like this.
  case contradiction(String)
  /// It can, but no device did what the end says.
  case noCause(String)

  package var text: String {
    switch self {
    case .contradiction(let text), .noCause(let text): text
    }
  }
}

package struct EndEvidence<Device: Hashable & Sendable> {
  package var caller: Device?
  package var winner: Device?
  /// Whether every answer is known: a journal has all, devices' views may lack that of a lost winner.
  package var knowsEveryAnswer = false
  package var isBeforeTimeout = false
  /// Whether every device that rang was busy or declined.
  package var everybodyRefused = true
  /// Whether a device was reached and stayed within reach.
  package var isReachable = false
  /// Whether it crossed the call to which it is said to have given way, and it was the one to give way.
  package var crossed = false
  /// Whether the media may have failed to connect, or both sides to stay connected.
  package var mayHaveFailed = false
  package var acts: (Device) -> CallActs
  /// Whether a device may have left by losing its session.
  package var mayBeLost: (Device) -> Bool

  package init(
    caller: Device?, winner: Device?, acts: @escaping (Device) -> CallActs,
    mayBeLost: @escaping (Device) -> Bool
  ) {
    self.caller = caller
    self.winner = winner
    self.acts = acts
    self.mayBeLost = mayBeLost
  }

  /// The contradiction between a call's facts and its end; nil where there is none.
  package func objection(to end: CallEnd<Device>) -> EndObjection? {
    if winner != nil, !end.reason.followsAnswer {
      return .contradiction("the call was answered")
    }
    let acts = end.by.map(acts) ?? []
    switch end.reason {
    case .answeredElsewhere, .moved:
      return .contradiction("a call cannot end as \(end.reason.name)")
    case .glare: return crossed ? nil : .contradiction("there was no crossing call")
    case .transferred:
      return winner == nil ? .contradiction("the call was never answered") : nil
    case .unanswered:
      if isBeforeTimeout { return .contradiction("the ring timeout had not passed") }
      return end.by == nil ? nil : .contradiction("somebody was named")
    case .unreachable: return isReachable ? .contradiction("a device rang") : nil
    case .declined:
      if end.by == nil || end.by == caller { return .noCause("nobody of the callee's was named") }
      if acts.contains(.declineEverywhere) || acts.contains(.declineHere) && everybodyRefused {
        return nil
      }
      return .noCause("the device named did not decline for all")
    case .busy:
      if !everybodyRefused { return .noCause("not every device was busy") }
      return end.by == nil || acts.contains(.busy) ? nil : .noCause("the device named was not busy")
    case .cancelled:
      guard let caller,
        !self.acts(caller).isDisjoint(with: [.cancel, .hangUp]) || mayBeLost(caller)
      else { return .noCause("the caller did not cancel") }
      return end.by == caller ? nil : .noCause("the caller was not named")
    case .hungUp:
      guard let winner else { return .contradiction("the call was never answered") }
      guard let by = end.by, by == caller || by == winner else {
        return .noCause("neither side was named")
      }
      return acts.contains(.hangUp) || mayBeLost(by)
        ? nil : .noCause("the one named did not hang up")
    case .failed:
      if winner == nil, knowsEveryAnswer { return .contradiction("the call was never answered") }
      return mayHaveFailed ? nil : .noCause("both sides were there")
    }
  }
}
