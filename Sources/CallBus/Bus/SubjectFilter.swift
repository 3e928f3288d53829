/// A subject with wildcards: `*` matches one token, `>` one or more tokens at the end.
package struct SubjectFilter: Sendable, Equatable {
  private let parts: [Substring]

  package init(_ text: String) {
    parts = text.split(separator: ".", omittingEmptySubsequences: false)
  }

  package func matches(_ subject: String) -> Bool {
    var rest = subject.utf8[...]
    var ended = false
    for (index, part) in parts.enumerated() {
      if ended { return false }
      if part == ">", index == parts.count - 1 { return !rest.isEmpty }
      let token = rest.prefix { $0 != UInt8(ascii: ".") }
      if part != "*", !part.utf8.elementsEqual(token) { return false }
      ended = token.endIndex == rest.endIndex
      rest = ended ? rest[rest.endIndex...] : rest[rest.index(after: token.endIndex)...]
    }
    return ended
  }

  /// Whether a server accepts the text as the subject of a subscription.
  package static func isValid(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
      guard !part.isEmpty, part != ">" || index == parts.count - 1 else { return false }
      guard part.utf8.allSatisfy({ $0 > 32 && $0 != 127 }) else { return false }
    }
    return true
  }
}
