internal import CallNodeKit

/// The program is `CallNodeKit`: apart, so that what tests link is not linked as this is.
@main struct Main {
  static func main() async { await CallnodeProgram.main() }
}
