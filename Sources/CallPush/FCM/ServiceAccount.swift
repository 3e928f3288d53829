internal import CallCore
internal import CallWire
internal import Crypto
internal import CryptoExtras

/// A Google service account from its key file. No log and no error contains the key.
package struct ServiceAccount: Sendable {
  package var email: String
  package var project: String
  /// The address for access tokens, and the audience of the assertion.
  package var tokenURI: String
  package var keyID: String
  private let key: _RSA.Signing.PrivateKey

  /// Reads a key file.
  /// - Throws: what is wrong, and what to do about it.
  package static func load(
    path: String, sender: String
  ) throws(SenderConfigurationError) -> ServiceAccount {
    try ServiceAccount(json: try SenderFiles.read(path, sender: sender), file: path, sender: sender)
  }

  /// - Throws: what is wrong with the file.
  package init(json: [UInt8], file: String, sender: String) throws(SenderConfigurationError) {
    func wrong(_ what: String, _ remedy: String) -> SenderConfigurationError {
      SenderConfigurationError(sender: sender, place: file, what: what, remedy: remedy)
    }
    let again = "make a new key for the service account and give its JSON file"
    guard let read = PayloadValue(json: json), case .object = read else {
      throw wrong("it is not a service account's key file", again)
    }
    guard read["type"]?.text == "service_account" else {
      throw wrong("its type is not service_account", "give a service account's key, not a client's")
    }
    guard let email = read["client_email"]?.text, email.contains("@") else {
      throw wrong("client_email is missing or no address", again)
    }
    guard let project = read["project_id"]?.text, Self.isProject(project) else {
      throw wrong("project_id is missing or not valid", again)
    }
    guard let tokenURI = read["token_uri"]?.text, ServiceAddress.plain(tokenURI) == tokenURI else {
      throw wrong("token_uri is missing or not an https address", again)
    }
    guard let pem = read["private_key"]?.text else { throw wrong("private_key is missing", again) }
    // The error of the decoder may quote the key.
    guard let key = try? _RSA.Signing.PrivateKey(pemRepresentation: pem) else {
      throw wrong("private_key is not the PEM text of an RSA key of 2048 bits or more", again)
    }
    self.email = email
    self.project = project
    self.tokenURI = tokenURI
    keyID = read["private_key_id"]?.text ?? ""
    self.key = key
  }

  /// Letters, digits, `-`, and the `:` and `.` of domain projects.
  package static func isProject(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count) && text.isAlphanumericASCII(or: "-:.")
  }

  /// Signs the assertion that is exchanged for an access token: a JWT with RS256 (RFC 7523; Google, "Using OAuth 2.0
  /// for Server to Server Applications").
  /// - Throws: the error of signing.
  package func assertion(nowSeconds: Int64) throws -> String {
    let kid = keyID.isEmpty ? "" : #","kid":"# + JSONWriter.quoted(keyID)
    let claims =
      #"{"iss":\#(JSONWriter.quoted(email)),"scope":"\#(Self.scope)","#
      + #""aud":\#(JSONWriter.quoted(tokenURI)),"iat":\#(nowSeconds),"#
      + #""exp":\#(nowSeconds + Self.lifetimeSeconds)}"#
    return try SignedJWT.text(
      header: #"{"alg":"RS256","typ":"JWT"\#(kid)}"#, claims: claims
    ) {
      try key.signature(for: SHA256.hash(data: $0), padding: .insecurePKCS1v1_5).rawRepresentation
    }
  }

  package static let scope = "https://www.googleapis.com/auth/firebase.messaging"
  /// The maximum that Google accepts.
  static let lifetimeSeconds: Int64 = 3600
}

/// The OAuth 2 exchange of an assertion for an access token (RFC 7523; RFC 6749, 5).
package enum TokenExchange {
  /// Longer lifetimes are reduced to a day.
  static let lifetimeSecondsMax: Int64 = 86_400

  /// The form-encoded body of the request. An assertion is base64url and dots, which need no escapes.
  static func body(assertion: String) -> [UInt8] {
    Array(
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        .utf8)
  }

  /// Judges an answer. The reasons contain no token: of an error they quote a short name only.
  package static func judge(_ reply: ProviderReply) -> AccessTokenMachine.Exchanged {
    switch reply {
    case .notSent(let why), .unknown(let why):
      return .failed(reason: "access token: \(why)")
    case .answer(let answer):
      switch answer.status {
      case 200: return success(answer.body)
      case 400, 401, 403:
        let word = PayloadValue(json: answer.body)?["error"]?.text
        return .failed(
          reason: "access token: \(ProviderWord.clean(word) ?? "HTTP \(answer.status)")")
      default:
        return .failed(reason: "access token: HTTP \(answer.status)")
      }
    }
  }

  private static func success(_ body: [UInt8]) -> AccessTokenMachine.Exchanged {
    guard let read = PayloadValue(json: body), let token = read["access_token"]?.text,
      case .number? = read["expires_in"], let seconds = read["expires_in"]?.wholeNumber,
      seconds > 0, (1...8192).contains(token.utf8.count), token.isGraphicASCII,
      read["token_type"].map({ $0.text?.lowercased() == "bearer" }) ?? true
    else { return .failed(reason: "access token: the answer is malformed") }
    return .token(token, lifetime: .seconds(min(seconds, lifetimeSecondsMax)))
  }
}

/// Words of providers that may appear in logs.
package enum ProviderWord {
  /// The word if it is a short name such as `invalid_grant`, `UNREGISTERED` or `message.android.ttl`; else nil. So no
  /// token that a provider quotes reaches a log.
  package static func clean(_ word: String?) -> String? {
    guard let word, (1...60).contains(word.utf8.count), word.isAlphanumericASCII(or: ".[]_")
    else { return nil }
    return word
  }
}
