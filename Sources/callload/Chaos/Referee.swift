/// Which nodes are disturbed, so that faults do not pile up on one kind of node until none is left.
actor Referee {
  private var taken: Set<String> = []
  /// Kinds that wait for their turn, the first of which may have it.
  private var queue: [ChaosKind] = []
  private var faults = 0

  /// Takes one of the names that is free, while another one stays free; of a single one, that.
  func take(among names: [String], _ draw: UInt64) -> String? {
    let free = names.filter { !taken.contains($0) }
    guard free.count > 1 || names.count == 1 && free.count == 1 else { return nil }
    let name = free[Int(draw % UInt64(free.count))]
    taken.insert(name)
    return name
  }

  /// Takes this one, if it is free and another of its kind is well, or it has none.
  func take(_ name: String, among names: [String]) -> String? {
    let free = names.filter { !taken.contains($0) }
    guard free.contains(name), free.count > 1 || names.count == 1 else { return nil }
    taken.insert(name)
    return name
  }

  /// Takes all of them, if nobody has any.
  func takeAll(_ names: [String]) -> [String]? {
    guard taken.isDisjoint(with: names) else { return nil }
    taken.formUnion(names)
    return names
  }

  func giveBack(_ name: String) { taken.remove(name) }

  /// Takes its place in the queue, once; true while it is the first there.
  func isTurn(of kind: ChaosKind) -> Bool {
    if !queue.contains(kind) { queue.append(kind) }
    return queue.first == kind
  }

  func endTurn(of kind: ChaosKind) { queue.removeAll { $0 == kind } }

  func nextFault() -> Int {
    faults += 1
    return faults
  }
}
