/// The header `X-Forwarded-For`, in which proxies give a device's address.
package enum ForwardedFor {
  /// The most entries that are read.
  private static let hopsMax = 32

  /// The rightmost address that is not a trusted proxy's. Each proxy appends the address of its peer, so
  /// what stands to the left of it comes from a peer that is not trusted.
  /// - Parameter values: the lines of the header, in their order.
  /// - Returns: where there is no such address, the leftmost trusted proxy; nil where there is none either.
  package static func device(_ values: [String], isTrusted: (PeerAddress) -> Bool)
    -> PeerAddress?
  {
    var farthest: PeerAddress?
    var hops = 0
    for value in values.reversed() {
      for part in value.split(separator: ",", omittingEmptySubsequences: false).reversed() {
        guard hops < hopsMax, let address = address(part) else { return farthest }
        if !isTrusted(address) { return address }
        farthest = address
        hops += 1
      }
    }
    return farthest
  }

  /// Some proxies write the port as well: `192.0.2.1:4711`, `[2001:db8::1]:4711`.
  private static func address(_ part: Substring) -> PeerAddress? {
    var text = part
    while text.first == " " || text.first == "\t" { text.removeFirst() }
    while text.last == " " || text.last == "\t" { text.removeLast() }
    if text.first == "[" {
      return text.firstIndex(of: "]").flatMap { PeerAddress(text[..<$0].dropFirst()) }
    }
    if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
      text = text[..<colon]
    }
    return PeerAddress(text)
  }
}
