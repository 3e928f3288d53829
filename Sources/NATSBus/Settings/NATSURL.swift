/// Checks lists of NATS URLs, and hides their credentials.
package enum NATSURL {
  package static func isValidList(_ text: String) -> Bool {
    let urls = text.split(separator: ",", omittingEmptySubsequences: false)
    return urls.count <= 32 && urls.allSatisfy { isValid(String($0)) }
  }

  /// Whether one of the URLs contains a user, password or token.
  package static func hasCredentials(_ text: String) -> Bool { text.contains("@") }

  /// Whether one of the servers is not on this machine.
  package static func leavesTheMachine(_ text: String) -> Bool {
    text.split(separator: ",").contains { url in
      let host = ServerGreeting.split(String(url))?.host ?? ""
      return !(host == "localhost" || host == "::1" || host.hasPrefix("127."))
    }
  }

  /// The URLs without user, password or token.
  package static func withoutCredentials(_ text: String) -> String {
    var urls: [String] = []
    for part in text.split(separator: ",").map(String.init) {
      // Although no such URL is valid, a password may contain a comma, and an error shows the URL.
      if part.contains("://") || urls.isEmpty {
        urls.append(part)
      } else {
        urls[urls.count - 1] += "," + part
      }
    }
    return urls.map { url in
      guard let at = url.lastIndex(of: "@") else { return url }
      let scheme = url.firstRange(of: "://").map { String(url[..<$0.upperBound]) } ?? ""
      return scheme + "***@" + url[url.index(after: at)...]
    }.joined(separator: ",")
  }

  private static func isValid(_ url: String) -> Bool {
    guard let separator = url.firstRange(of: "://") else { return false }
    guard ["nats", "tls"].contains(url[..<separator.lowerBound]) else { return false }
    var rest = url[separator.upperBound...]
    if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    guard !rest.isEmpty, rest.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 47 }) else {
      return false
    }
    guard let colon = rest.lastIndex(of: ":"), !rest.hasSuffix("]") else { return true }
    return rest.startIndex < colon
      && UInt16(rest[rest.index(after: colon)...]).map { $0 > 0 } == true
  }
}
