import CallAuth
import Crypto
import Foundation
import Testing

/// The time of all tests.
let now: Int64 = 1_800_000_000

/// The secret of `k1`, the key by which `forge` signs.
let secret = [UInt8](0..<32)

/// An entry of a key file.
func keyEntry(_ kid: String = "k1", _ secret: [UInt8] = secret) -> String {
  #"{"kid":"\#(kid)","alg":"HS256","secret":"\#(Data(secret).base64EncodedString())"}"#
}

/// A key file with the app `demo`, its keys, and what more the app has.
func keyFile(_ keys: String = keyEntry(), _ more: String = "") -> String {
  #"{"apps":[{"app":"demo","keys":[\#(keys)]\#(more)}]}"#
}

func appKeys(_ json: String) throws(AppKeysError) -> AppKeys {
  try AppKeys(json: Array(json.utf8), file: "keys.json")
}

func base64URL(_ bytes: some Sequence<UInt8>) -> String {
  Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
    .replacing("=", with: "")
}

func decoded(base64URL text: String) -> [UInt8] {
  var plain = text.replacing("-", with: "+").replacing("_", with: "/")
  while plain.utf8.count % 4 != 0 { plain += "=" }
  return Array(Data(base64Encoded: plain)!)
}

/// A token with exactly this payload and header, signed with HMAC over `secret`.
func forge(
  _ payload: String, header: String = #"{"alg":"HS256","kid":"k1"}"#, secret: [UInt8] = secret
) -> String {
  let text = base64URL(header.utf8) + "." + base64URL(payload.utf8)
  let code = HMAC<SHA256>.authenticationCode(
    for: Array(text.utf8), using: SymmetricKey(data: secret))
  return text + "." + base64URL(code)
}
