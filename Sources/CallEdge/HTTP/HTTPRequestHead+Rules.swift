internal import NIOHTTP1

extension HTTPRequestHead {
  /// Whether the request says for which host it is, once, in characters that a host may have. Others are
  /// refused: proxies and servers disagree about which of two hosts counts (RFC 9112, 3.2).
  var hasAcceptableHost: Bool {
    let hosts = headers["host"]
    if hosts.isEmpty { return (version.major, version.minor) < (1, 1) }
    return hosts.count == 1 && hosts[0].utf8.allSatisfy(Self.isOfHost)
  }

  /// RFC 3986, 3.2.2 and 3.2.3; no comma, which would join two hosts.
  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "-._~:[]%!$&'()*+;=".utf8.contains(byte)
    }
  }

  /// An expectation in a request of HTTP/1.0 means nothing.
  var expectsContinue: Bool {
    (version.major, version.minor) >= (1, 1)
      && headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
  }
}
