/// In which order servers are tried.
package enum ServerOrder {
  /// Any, so that nodes spread; but the one that was lost just now comes last, since its host may be gone,
  /// and to find that out takes the whole of `connectTimeout`.
  ///
  /// - Parameters:
  ///   - list: one URL, or several separated by commas.
  ///   - lost: without credentials; empty: none was.
  package static func drawn(from list: String, lost: String) -> [String] {
    let all = list.split(separator: ",").map(String.init).shuffled()
    let isLost = { ServerGreeting.withoutCredentials($0) == lost }
    return all.filter { !isLost($0) } + all.filter(isLost)
  }
}
