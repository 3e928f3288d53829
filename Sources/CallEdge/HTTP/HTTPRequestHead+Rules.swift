internal import NIOHTTP1

extension HTTPRequestHead {
  /// Whether the request has one Host header, with characters that a host may have. Others are refused, since
  /// proxies and servers disagree about which of two hosts counts (RFC 9112, 3.2).
  var hasAcceptableHost: Bool {
    let hosts = headers["host"]
    if hosts.isEmpty { return (version.major, version.minor) < (1, 1) }
    return hosts.count == 1 && hosts[0].utf8.allSatisfy(Self.isOfHost)
  }

  /// Whether RFC 3986, 3.2.2 and 3.2.3 allow the character. A comma is not allowed: it would join two hosts.
  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "-._~:[]%!$&'()*+;=".utf8.contains(byte)
    }
  }

  /// Whether the client waits for a 100 before it sends the body. HTTP/1.0 has no expectations.
  var expectsContinue: Bool {
    (version.major, version.minor) >= (1, 1)
      && headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
  }
}
