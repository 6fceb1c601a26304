"""VL-CheckList: true phrases of photographs, paired with false ones, by thirteen aspects."""
