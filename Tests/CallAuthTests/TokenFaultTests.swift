import CallAuth
import Crypto
import Foundation
import Testing

/// The log tells why a token is not accepted.
@Suite struct TokenFaultTests {
  private static let now: Int64 = 1_800_000_000
  private static let secret = SymmetricKey(data: Array("0123456789abcdef0123456789abcdef".utf8))

  private func fault(
    _ payload: String, header: String = #"{"alg":"HS256","kid":"k1"}"#, signs: Bool = true
  ) throws -> TokenFault? {
    let text = [header, payload].map { Self.encoded(Array($0.utf8)) }.joined(separator: ".")
    let signature = HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: Self.secret)
    let token = text + "." + Self.encoded(signs ? Array(signature) : [1, 2, 3])
    return try Self.authority().fault(in: token, now: Self.now)
  }

  private static func authority() throws -> TokenAuthority {
    let keys = try AppKeys(
      json: Array(
        """
        {"apps":[{"app":"demo","keys":[{"kid":"k1","alg":"HS256","secret":\
        "\(Data("0123456789abcdef0123456789abcdef".utf8).base64EncodedString())"}]}]}
        """.utf8))
    return TokenAuthority(keys: keys)
  }

  private static func encoded(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
      .replacing("=", with: "")
  }

  @Test(arguments: [
    (#"{"app":"demo","sub":42,"exp":1800000600}"#, TokenFault.Part.sub, "sub has another type"),
    (#"{"app":"demo","sub":"","exp":1800000600}"#, .sub, "sub is no user id"),
    (#"{"app":"demo","exp":1800000600}"#, .sub, "sub is no user id"),
    (#"{"app":"other","sub":"ann","exp":1800000600}"#, .app, "none of the file of keys"),
    (#"{"sub":"ann","exp":1800000600}"#, .app, "app is missing"),
    (#"{"app":"demo","sub":"ann"}"#, .exp, "exp is missing"),
    (#"{"app":"demo","sub":"ann","exp":"soon"}"#, .exp, "a number of seconds"),
    (#"{"app":"demo","sub":"ann","exp":1799999990}"#, .exp, "expired 10 s ago"),
    (#"{"app":"demo","sub":"ann","exp":1800000600000}"#, .lifetime, "longer than"),
    (#"{"app":"demo","sub":"ann","exp":1800000600,"nbf":1800000300}"#, .nbf, "ahead of this clock"),
    (#"{"app":"demo","sub":"ann","exp":1800000600,"iat":1800000300}"#, .iat, "ahead of this clock"),
    (
      #"{"app":"demo","sub":"ann","exp":1800000600,"device":7}"#, .device, "device has another type"
    ),
    (#"["app"]"#, .form, "payload"),
  ])
  func claims(_ payload: String, _ part: TokenFault.Part, _ text: String) throws {
    let fault = try fault(payload)
    #expect(fault?.part == part)
    #expect(fault?.text.contains(text) == true, "\(fault?.text ?? "")")
    #expect(fault?.text.contains("ann") == false)
  }

  @Test func aGoodTokenHasNone() throws {
    #expect(try fault(#"{"app":"demo","sub":"ann","exp":1800000600}"#) == nil)
  }

  @Test func theRest() throws {
    let good = #"{"app":"demo","sub":"ann","exp":1800000600}"#
    #expect(try fault(good, signs: false)?.part == .signature)
    #expect(try fault(good, header: #"{"alg":"none","kid":"k1"}"#)?.part == .header)
    #expect(try fault(good, header: #"{"alg":"HS256","kid":"k9"}"#)?.part == .key)
    #expect(try fault(good, header: #"{"alg":"HS256","crit":[]}"#)?.part == .header)
    #expect(try fault(good, header: "{}")?.part == .header)
    #expect(try Self.authority().fault(in: "x.y", now: Self.now)?.part == .form)
    let long = String(repeating: "a", count: 5000)
    #expect(try Self.authority().fault(in: long, now: Self.now)?.text.contains("4096") == true)
  }
}
