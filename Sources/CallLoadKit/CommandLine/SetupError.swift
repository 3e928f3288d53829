/// Why a run could not begin: a sentence that names the cause and the remedy.
package struct SetupError: Error, CustomStringConvertible, Equatable {
  package var description: String
  package init(_ description: String) { self.description = description }
}
