/// The fault of a token, for the app's developer and the operator. A device learns less: whoever tries tokens is
/// helped by no detail. Contains nothing of the token but the names of its claims.
public struct TokenFault: Error, Sendable, Equatable {
  /// The part of the token that is wrong. Raw values are those of a metric's label.
  public enum Part: String, Sendable, CaseIterable {
    /// It is not three parts in base64url, with JSON in the first two.
    case form
    /// `alg`, `kid` or `crit`.
    case header
    case app, sub, device, exp, nbf, iat
    /// The app has no such key.
    case key
    case signature
    /// The time between now, or `iat`, and `exp`.
    case lifetime
  }

  public var part: Part
  public var text: String
  /// As the device learns it.
  let failure: AuthFailure

  init(_ part: Part, _ text: String, _ failure: AuthFailure = .notAccepted) {
    self.part = part
    self.text = text
    self.failure = failure
  }

  /// A claim is missing, or of another type. No claim of the token is in the text.
  init(_ error: any Error) {
    guard let error = error as? DecodingError else {
      self.init(.form, "the payload is no JSON object of a bearable size")
      return
    }
    let (name, what): (String?, String) =
      switch error {
      case .keyNotFound(let key, _): (key.stringValue, "is missing")
      case .typeMismatch(_, let context): (context.codingPath.last?.stringValue, "has another type")
      case .valueNotFound(_, let context): (context.codingPath.last?.stringValue, "is null")
      case .dataCorrupted(let context): (context.codingPath.last?.stringValue, "cannot be read")
      @unknown default: (nil, "")
      }
    guard let name, let part = Part(rawValue: name) else {
      self.init(.form, "the payload is not the JSON object that a token has")
      return
    }
    let type = [.exp, .nbf, .iat].contains(part) ? "a number of seconds since 1970" : "text"
    self.init(part, "\(name) \(what): it is \(type)")
  }
}
