package import CallCore

/// The answer that the app's server is to give when it is asked about a call, drawn with the call. A header of the call
/// holds it, and so does the question. The server needs to know nothing else.
package enum HookTerms: Sendable, Equatable {
  package enum Refusal: String, CaseIterable, Sendable {
    case forbidden, unknownUser, unavailable

    package var code: CallError.Code {
      switch self {
      case .forbidden: .refusedByApp
      case .unknownUser: .unknownUser
      case .unavailable: .userUnavailable
      }
    }
  }

  case allow
  /// The callee sees this display name.
  case name(String)
  /// The same, after some time, but soon enough.
  case slowName(String)
  case refuse(Refusal)
  /// This user's devices ring in place of the callee's.
  case forward(String)
  /// It does not answer in time.
  case late
  /// It fails.
  case broken

  /// The sentence that a caller gets with a refusal.
  package static let sentence = "The load wants no such call."
  package static let header = "X-Load-Hook"
  /// How long an edge waits for an answer, and how long a slow one takes.
  static let timeout: Span = .milliseconds(2000)
  static let slowMilliseconds: Int64 = 300

  /// The share of calls that the hook sends to other users, among the calls that one device answers.
  static let forwardedShare = 0.15

  /// The call is not placed, or not at once.
  var delays: Bool {
    switch self {
    case .slowName, .late, .broken: true
    case .allow, .name, .refuse, .forward: false
    }
  }

  /// Whether the server gives no answer that counts.
  var isNone: Bool { self == .late || self == .broken }

  // MARK: As a header

  package var text: String {
    switch self {
    case .allow: "allow"
    case .name(let name): "name \(name)"
    case .slowName(let name): "slowName \(name)"
    case .refuse(let refusal): "refuse \(refusal.rawValue)"
    case .forward(let user): "forward \(user)"
    case .late: "late"
    case .broken: "broken"
    }
  }

  /// nil: it is none.
  package init?(_ text: String) {
    let words = text.split(separator: " ", maxSplits: 1).map(String.init)
    switch (words.first, words.count > 1 ? words[1] : nil) {
    case ("allow", nil): self = .allow
    case ("late", nil): self = .late
    case ("broken", nil): self = .broken
    case ("name", let name?): self = .name(name)
    case ("slowName", let name?): self = .slowName(name)
    case ("forward", let user?): self = .forward(user)
    case ("refuse", let reason?):
      guard let refusal = Refusal(rawValue: reason) else { return nil }
      self = .refuse(refusal)
    default: return nil
    }
  }

  // MARK: Drawing

  /// - Parameters:
  ///   - allows: without an answer the app allows the call; else it refuses it.
  ///   - caller: the number of the device.
  init(
    for kind: Scenario.Kind, _ route: CallRoute, allows: Bool, caller: Int,
    _ random: inout SplitMix64
  ) {
    let share = Double.random(in: 0..<1, using: &random)
    let refusal = Refusal.allCases.randomElement(using: &random) ?? .forbidden
    let name = "Caller \(caller)"
    switch share {
    case ..<0.2: self = .name(name)
    case ..<0.25: self = .slowName(name)
    // So few that hardly ever five in a row fail at one edge, which then asks no server for some seconds.
    case ..<0.27 where allows || Self.mayBeRefused(kind, route): self = .late
    case ..<0.29 where allows || Self.mayBeRefused(kind, route): self = .broken
    case 0.29..<0.39 where !allows && Self.mayBeRefused(kind, route): self = .refuse(refusal)
    default: self = .allow
    }
  }

  /// No other call depends on it.
  private static func mayBeRefused(_ kind: Scenario.Kind, _ route: CallRoute) -> Bool {
    switch kind {
    case .answered, .twoAnswer, .declinedEverywhere, .declinedHere, .cancelled, .cancelAtAnswer,
      .unanswered, .busy:
      route.isDirect
    case .calleeReturns, .callerReturns, .crossing, .pulled, .forwarded, .group, .transferred,
      .secondCall, .consulted:
      false
    }
  }
}
