import CallCore

/// Tries everything that can happen, breadth first.
struct AppendExplorer {
  var states = 0
  var depth = 0
  var violation: String?

  init(stepsMax: Int, _ sabotage: AppendWorld.Sabotage? = nil) {
    var seen: Set<AppendWorld> = [AppendWorld()]
    var frontier = [AppendWorld()]
    while !frontier.isEmpty, depth < stepsMax {
      depth += 1
      var next: [AppendWorld] = []
      for world in frontier {
        for successor in world.successors(sabotage) where seen.insert(successor).inserted {
          if let found = successor.violation {
            violation = found
            states = seen.count
            return
          }
          next.append(successor)
        }
      }
      frontier = next
    }
    states = seen.count
  }
}
