internal import CallAuth
internal import CallCore
internal import CallWire
internal import Crypto
internal import FoundationEssentials

/// Keys and times that inputs in the corpora were made with. Never changed.
enum FuzzKeys {
  static let secret = [UInt8](repeating: 0x5a, count: 32)
  /// In microseconds.
  static let now: Int64 = 1_800_000_000_000_000
  static let nowSeconds: Int64 = 1_800_000_000

  static func apps() throws -> AppKeys {
    let text = Data(secret).base64EncodedString()
    let json = #"{"apps":[{"app":"demo","keys":[{"kid":"k1","alg":"HS256","secret":"\#(text)"}]}]}"#
    return try AppKeys(json: Array(json.utf8))
  }

  static func capabilities() throws -> PushCapabilityKeys { try PushCapabilityKeys([secret]) }

  static func code(_ bytes: [UInt8]) -> [UInt8] {
    Array(HMAC<SHA256>.authenticationCode(for: bytes, using: SymmetricKey(data: secret)))
  }

  /// A token that is signed well.
  static func token(header: [UInt8], payload: [UInt8]) -> String {
    let signed = Base64URL.text(header) + "." + Base64URL.text(payload)
    return signed + "." + Base64URL.text(code(Array(signed.utf8)))
  }
}

extension FuzzTarget {
  /// As a whole token, and as the header and the payload of one that is signed well.
  static let token = FuzzTarget("token") {
    let verifier = TokenVerifier(keys: try FuzzKeys.apps())
    let header = Array(#"{"alg":"HS256","kid":"k1"}"#.utf8)
    let payload = Array(#"{"app":"demo","sub":"alice","exp":1800500000}"#.utf8)
    return { input in
      let bytes = Array(input)
      for text in [
        bytes.text, FuzzKeys.token(header: header, payload: bytes),
        FuzzKeys.token(header: bytes, payload: payload),
      ] {
        guard let claims = try? verifier.verify(text, now: FuzzKeys.nowSeconds) else { continue }
        try promise(claims.app == "demo", "of another app: \(claims)")
        try promise(IdentifierRules.isUser(claims.user), "a user that none may be: \(claims)")
        try promise(claims.expiresAtSeconds > FuzzKeys.nowSeconds, "too late: \(claims)")
      }
    }
  }

  /// As a whole capability, and as the payload of one that is signed well.
  static let capability = FuzzTarget("capability", bytesMax: 512) {
    let keys = try FuzzKeys.capabilities()
    let purpose = Array("callmesh push capability\0".utf8)
    return { input in
      let bytes = Array(input)
      let signed = Base64URL.text(bytes + FuzzKeys.code(purpose + bytes).prefix(16))
      for text in [bytes.text, signed] {
        guard let capability = try? keys.verify(text, now: FuzzKeys.nowSeconds) else { continue }
        try promise(
          IdentifierRules.isUser(capability.user), "a user that none may be: \(capability)")
        try promise(capability.expires > FuzzKeys.nowSeconds, "too late: \(capability)")
      }
    }
  }

  static let appKeys = FuzzTarget("app-keys") { bytes in _ = try? AppKeys(json: bytes) }
}
