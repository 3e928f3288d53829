/// The name that a mistyped one may stand for.
package enum Suggestion {
  package static func closest(to name: String, among names: [String]) -> String? {
    let wanted = Array(name.lowercased().utf8.filter { $0 != 45 && $0 != 95 })
    // No name is so long, and the work grows with it.
    guard wanted.count <= 100 else { return nil }
    let ranked = names.map {
      (name: $0, distance: distance(wanted, Array($0.lowercased().utf8)))
    }
    guard let best = ranked.min(by: { $0.distance < $1.distance }) else { return nil }
    return best.distance <= max(2, wanted.count / 3) ? best.name : nil
  }

  /// Levenshtein's.
  private static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
    var row = Array(0...b.count)
    for (i, byte) in a.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for (j, other) in b.enumerated() {
        let above = row[j + 1]
        row[j + 1] = byte == other ? diagonal : 1 + min(diagonal, above, row[j])
        diagonal = above
      }
    }
    return row[b.count]
  }
}
