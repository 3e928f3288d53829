internal import CallTestKit
internal import CallWire
internal import Crypto
internal import CryptoExtras
internal import Foundation
internal import Synchronization

/// The token endpoint (RFC 7523, RFC 6749; Google, "Using OAuth 2.0 for Server to Server Applications").
extension FCMSimulator {
  func exchange(_ request: SimulatedRequest) -> SimulatedReply {
    state.withLock { $0.exchanges += 1 }
    if let wrong = faultOfExchange(request) {
      violation("token: \(wrong)")
      return tokenScript.next()
        ?? .answer(
          status: 400, headers: [("content-type", "application/json")],
          body: #"{"error":"invalid_grant","error_description":"Invalid JWT."}"#)
    }
    if let scripted = tokenScript.next() { return scripted }
    return state.withLock { state in
      let token = "ya29.simulated-\(state.exchanges)"
      state.tokens[token] = nowSeconds() + state.tokenLifetimeSeconds
      return .answer(
        status: 200, headers: [("content-type", "application/json; charset=utf-8")],
        body: #"{"access_token":"\#(token)","expires_in":\#(state.tokenLifetimeSeconds),"#
          + #""token_type":"Bearer"}"#)
    }
  }

  private func faultOfExchange(_ request: SimulatedRequest) -> String? {
    guard request.method == "POST" else { return "method \(request.method)" }
    guard request.header("content-type") == "application/x-www-form-urlencoded" else {
      return "content type"
    }
    var fields: [String: String] = [:]
    for pair in String(decoding: request.body, as: UTF8.self).split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
      guard parts.count == 2, let value = parts[1].removingPercentEncoding,
        fields.updateValue(value, forKey: parts[0]) == nil
      else { return "form" }
    }
    guard fields["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer",
      Set(fields.keys) == ["grant_type", "assertion"]
    else { return "form fields" }
    guard let assertion = fields["assertion"], let token = SimulatedJWT(assertion) else {
      return "assertion"
    }
    return fault(of: token)
  }

  private func fault(of token: SimulatedJWT) -> String? {
    guard token.header["alg"]?.text == "RS256", token.header["typ"]?.text == "JWT",
      token.header["kid"]?.text == keyID, Set(token.header.keys) == ["alg", "typ", "kid"]
    else { return "header of the assertion" }
    let signature = _RSA.Signing.RSASignature(rawRepresentation: token.signature)
    guard
      key.publicKey.isValidSignature(
        signature, for: SHA256.hash(data: token.signed), padding: .insecurePKCS1v1_5)
    else { return "signature" }
    guard Set(token.claims.keys) == ["iss", "scope", "aud", "iat", "exp"] else { return "claims" }
    guard token.claims["iss"]?.text == email else { return "iss" }
    guard token.claims["aud"]?.text == audience else { return "aud" }
    guard token.claims["scope"]?.text == "https://www.googleapis.com/auth/firebase.messaging"
    else { return "scope" }
    let now = nowSeconds()
    guard let issued = token.integer("iat"), abs(issued - now) <= 60 else { return "iat" }
    guard let end = token.integer("exp"), end > now, end <= issued + 3600 else { return "exp" }
    return nil
  }
}
